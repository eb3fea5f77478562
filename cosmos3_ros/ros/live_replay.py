# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A bag played to a real policy node over ROS, in its own domain and on the recorded clock."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
import contextlib
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import threading
import time

from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosbags.typesys import Stores, get_typestore
from rosgraph_msgs.msg import Clock
from std_msgs.msg import String
import yaml

from cosmos3_ros.msg import ActionChunk
from cosmos3_ros.replay.bag import Bag, BagError
from cosmos3_ros.replay.runner import Chunk, score, timing
from cosmos3_ros.replay.setup import Setup
from cosmos3_ros.ros.environment import prepare_environment
from cosmos3_ros.ros.messages import to_time
from cosmos3_ros.ros.record import KINDS
from cosmos3_ros.sensing.streams import nanoseconds

START_TIMEOUT = 180.0   # s; a cold start reads gigabytes of libraries
STOP_TIMEOUT = 10.0     # s for the node's process to end
LINGER = 1.0            # s for the last chunks
DROPPED = 'dropped: '    # before a code, in the keys of the node's diagnostics
CLOCK_PERIOD = 10_000_000   # ns of recorded time between messages on /clock


def run(bag: str, checkpoint: str, setup: Setup, instruction: str, seed: int, device: str) -> dict:
    """Play a bag once, at the pace of its recording; the result is that of `replay.runner.run`.

    Refused observations are those that the node's diagnostics count. Raises BagError.
    """
    with Bag(bag) as opened:
        chunks, drops = play(opened, checkpoint, setup, instruction, seed, device)
        if not chunks:
            reasons = '; '.join(drops.examples.values()) or 'its log above says why'
            raise BagError(f'bag {opened.path}: the node sent no chunk: {reasons}')
        result = score(opened, setup, 'live over ROS', instruction, seed, chunks, drops.counts,
                       drops.examples, [])
    result['settings'] |= {'checkpoint': checkpoint, 'device': device, 'precision': 'auto'}
    result['timing'] = timing(chunks, result['duration_s'], result['duration_s'])
    return result


class Drops:
    """Observations without a chunk, by the code of the policy node, with an example of each."""

    def __init__(self) -> None:
        self.counts: Counter = Counter()
        self.examples: dict[str, str] = {}

    def hear(self, message: DiagnosticArray) -> None:
        """Take in a report of the node: the counts are those since its activation."""
        for status in message.status:
            for entry in status.values:
                if entry.key.startswith(DROPPED):
                    code = entry.key.removeprefix(DROPPED)
                    self.counts[code] = int(entry.value)
                    text = status.message.partition(f'{code}: ')[2]
                    if text or code not in self.examples:
                        self.examples[code] = text or 'counted by the node'


def play(bag: Bag, checkpoint: str, setup: Setup, instruction: str, seed: int,
         device: str) -> tuple[list[Chunk], Drops]:
    """The chunks that a policy node sends while the bag plays, and what it drops."""
    prepare_environment()
    domain = 1 + os.getpid() % 100          # nothing of this reaches a robot on the network
    with tempfile.TemporaryDirectory() as folder, _node(
            _parameters(bag, checkpoint, setup, seed, device, Path(folder)), domain) as process:
        context = Context()
        context.init(args=[], domain_id=domain)
        try:
            return _Player(context, bag, setup, instruction).run(process)
        finally:
            context.try_shutdown()


class _Player:
    def __init__(self, context: Context, bag: Bag, setup: Setup, instruction: str):
        self._bag, self._setup, self._instruction = bag, setup, instruction
        self._streams = setup.streams(bag, time.monotonic)
        self._node = node = Node('replay', context=context)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(node)
        self._chunks: list[Chunk] = []
        self._drops = Drops()
        node.create_subscription(ActionChunk, 'policy/action_chunk', self._on_chunk, 10)
        node.create_subscription(DiagnosticArray, '/diagnostics', self._drops.hear, 10)
        self._publishers = {
            stream.topic: node.create_publisher(KINDS[bag.topics[stream.topic]], stream.topic, 10)
            for stream in self._streams.all}
        self._clock = node.create_publisher(Clock, '/clock', 10)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._speaker = node.create_publisher(String, 'policy/instruction', latched)
        self._types = get_typestore(Stores.ROS2_JAZZY)

    def run(self, process: subprocess.Popen) -> tuple[list[Chunk], Drops]:
        stop = threading.Event()
        thread = threading.Thread(target=self._spin, args=(stop,))
        thread.start()
        try:
            self._wait(process)
            self._play()
            time.sleep(LINGER + 1.0)        # diagnostics come once a second
        finally:
            stop.set()
            thread.join()
            self._executor.shutdown()
            self._node.destroy_node()
        return self._chunks, self._drops

    def _spin(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def _wait(self, process: subprocess.Popen) -> None:
        """Until the node has loaded its model and listens."""
        until = time.monotonic() + START_TIMEOUT
        wrist = self._streams.cameras['wrist'].topic
        while not self._node.count_subscribers(wrist):
            if process.poll() is not None or time.monotonic() > until:
                raise BagError('the policy node did not start; its log above says why')
            time.sleep(0.1)
        time.sleep(LINGER)                  # it is activated after it has begun to listen

    def _play(self) -> None:
        if self._instruction:
            self._speaker.publish(String(data=self._instruction))
        spoken = '' if self._instruction else self._setup.instructions(self._bag)
        begun, ticked = time.monotonic(), self._bag.start - 1
        for topic, at, message in self._bag.messages([*self._publishers, *filter(None, [spoken])]):
            while ticked < at:
                ticked = min(ticked + CLOCK_PERIOD, at)
                ahead = (ticked - self._bag.start) * 1e-9 - (time.monotonic() - begun)
                time.sleep(max(0.0, ahead))
                self._clock.publish(Clock(clock=to_time(ticked)))
            if topic == spoken:
                self._speaker.publish(String(data=message.data))
            else:
                self._publishers[topic].publish(
                    bytes(self._types.serialize_cdr(message, self._bag.topics[topic])))

    def _on_chunk(self, chunk: ActionChunk) -> None:
        targets = np.array(chunk.positions).reshape(chunk.horizon, -1)
        stamp, latency = nanoseconds(chunk.header.stamp), nanoseconds(chunk.latency)
        inputs = dict(zip(chunk.input_names, map(nanoseconds, chunk.input_stamps)))
        self._chunks.append(Chunk(stamp, stamp + latency, inputs, chunk.seed, targets,
                                  latency * 1e-9, self._drops.counts.total()))


@contextlib.contextmanager
def _node(parameters: Path, domain: int) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen(
        [sys.executable, '-m', 'cosmos3_ros.ros.process', '--ros-args', '--params-file',
         str(parameters)],
        env=os.environ | {'ROS_DOMAIN_ID': str(domain),
                          'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'})
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT)
        process.kill()


def _parameters(bag: Bag, checkpoint: str, setup: Setup, seed: int, device: str,
                folder: Path) -> Path:
    """A parameter file with the names and limits of a replay."""
    streams = setup.streams(bag, time.monotonic)
    cameras = {name: {'topic': stream.topic.removesuffix('/compressed'),
                      'transport': 'compressed' if stream.topic.endswith('/compressed') else 'raw'}
               for name, stream in streams.cameras.items()}
    names = ('gripper_joint', 'gripper_open', 'gripper_closed', 'max_camera_age', 'max_joint_age',
             'max_skew', 'max_reply_age', 'chunks_in_flight')
    values = {name: getattr(setup, name) for name in names} | {
        'checkpoint': checkpoint, 'device': device, 'seed': seed, 'nodes': ['policy'],
        'use_sim_time': True, 'cameras': cameras, 'arm_joints': list(setup.arm_joints),
        'joint_states_topic': streams.joints.topic,
        'max_chunk_age': max(1.8, setup.max_reply_age),
        'give_up_age': max(2.4, setup.max_reply_age)}
    path = folder / 'parameters.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': values}}), encoding='utf-8')
    return path
