# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Records what the policy sees and says to an mcap bag that `cosmos3 replay` reads."""
from __future__ import annotations

from functools import partial
from pathlib import Path
import signal
import threading
import time

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from cosmos3_ros.msg import ActionChunk
from cosmos3_ros.replay.setup import COMPRESSED, IMAGE, JOINT_STATE, STRING, Setup
from cosmos3_ros.ros.environment import prepare_environment, share_directory

CHUNK, TRAJECTORY = 'cosmos3_ros/msg/ActionChunk', 'trajectory_msgs/msg/JointTrajectory'
KINDS = {IMAGE: Image, COMPRESSED: CompressedImage, JOINT_STATE: JointState, STRING: String,
         CHUNK: ActionChunk, TRAJECTORY: JointTrajectory}
LOOK = 0.5              # s between looks for topics that have come up


class Recorder(Node):
    """Writes messages as they come, under their time of receipt.

    Of a camera that is published both raw and compressed, the compressed pictures are taken.
    """

    def __init__(self, path: Path, setup: Setup, namespace: str = '', **node_options):
        super().__init__('record', namespace=namespace, **node_options)
        self.counts: dict[str, int] = {}
        self._writing, self._finished = threading.Lock(), False
        self._writer = Writer(path, version=9, storage_plugin=StoragePlugin.MCAP)
        self._writer.open()
        self._types = get_typestore(Stores.ROS2_JAZZY)
        definition = (share_directory() / 'msg/ActionChunk.msg').read_text(encoding='utf-8')
        self._types.register(get_types_from_msg(definition, CHUNK))
        self._cameras = [self.resolve_topic_name(topic.removesuffix('/compressed'))
                         for topic in setup.cameras.values()]
        self._others = {self.resolve_topic_name(topic): kind for topic, kind in (
            (setup.joint_states_topic, JOINT_STATE), (setup.instruction_topic, STRING),
            ('policy/action_chunk', CHUNK), ('policy/joint_trajectory', TRAJECTORY),
            ('policy/gripper_trajectory', TRAJECTORY))}
        self.create_timer(LOOK, self._look)

    def finish(self) -> None:
        """Close the bag; what comes later is not written."""
        with self._writing:
            self._finished = True
            self._writer.close()

    def _look(self) -> None:
        """Subscribe to wanted topics that somebody publishes by now."""
        found = {name: types for name, types in self.get_topic_names_and_types()
                 if self.count_publishers(name)}
        for topic in self._cameras:
            if COMPRESSED in found.get(f'{topic}/compressed', ()):
                self._listen(f'{topic}/compressed', COMPRESSED)
            elif IMAGE in found.get(topic, ()):
                self._listen(topic, IMAGE)
        for topic, kind in self._others.items():
            if kind in found.get(topic, ()):
                self._listen(topic, kind)

    def _listen(self, topic: str, kind: str) -> None:
        if topic in self.counts:
            return
        qos = qos_profile_sensor_data
        if kind == STRING:                      # latched: what was said before counts too
            qos = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        connection = self._writer.add_connection(topic, kind, typestore=self._types)
        self.counts[topic] = 0
        self.create_subscription(KINDS[kind], topic, partial(self._write, connection), qos,
                                 raw=True)

    def _write(self, connection, data: bytes) -> None:
        self.counts[connection.topic] += 1
        with self._writing:
            if not self._finished:
                self._writer.write(connection, self.get_clock().now().nanoseconds, bytes(data))


def record(path: Path, setup: Setup, seconds: float | None, namespace: str) -> int:
    """Record until Ctrl-C, or for some seconds; returns the exit code.

    Raises ValueError if there is something at `path`.
    """
    if path.exists():
        raise ValueError(f'{path} exists, wanted a new folder: recordings are not overwritten')
    prepare_environment()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    started = time.monotonic()
    recorder = Recorder(path, setup, namespace)
    while not stop.is_set() and (seconds is None or time.monotonic() - started < seconds):
        rclpy.spin_once(recorder, timeout_sec=0.1)
    recorder.finish()
    recorder.destroy_node()
    rclpy.try_shutdown()
    for topic, count in sorted(recorder.counts.items()):
        print(f'{count:7} {topic}')
    print(f'wrote {path}' if recorder.counts else f'nothing was published; {path} is empty')
    return 0 if recorder.counts else 1
