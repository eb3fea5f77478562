# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The demo: the simulated cell and the policy, each a process, and a client that watches."""
from __future__ import annotations

from collections.abc import Iterator
import contextlib
from importlib.util import find_spec
import json
import math
from pathlib import Path
import signal
import subprocess
import sys
import threading
import time

from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from cosmos3_ros.msg import ActionChunk
from cosmos3_ros.ros.diagnostics import Percentiles
from cosmos3_ros.ros.environment import prepare_environment, share_directory

START_TIMEOUT = 180.0       # s to the first chunk; a cold start reads gigabytes of libraries
STOP_TIMEOUT = 10.0         # s for a process to end
LINE_PERIOD = 0.5           # s between status lines on a terminal
LOG_PERIOD = 5.0            # s between them elsewhere


def run_demo(checkpoint: str, instruction: str, seconds: float | None,
             report: Path | None, trace: Path | None = None) -> int:
    """Run until Ctrl-C, or for some seconds from the first chunk; returns the exit code.

    `report`: file for the figures, as JSON; `trace`: for the jobs and units of the engine.
    """
    if find_spec('mujoco') is None:
        print('cosmos3 demo: MuJoCo is missing; pip install "cosmos3_ros[rig]"', file=sys.stderr)
        return 2
    prepare_environment()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    watcher = Watcher(instruction)
    with _processes(checkpoint, trace) as processes:
        code = _watch(watcher, processes, seconds, stop)
    print(f'\n{json.dumps(watcher.figures(), indent=2)}')
    if report is not None:
        report.write_text(json.dumps(watcher.figures(), indent=2) + '\n', encoding='utf-8')
    watcher.destroy_node()
    rclpy.try_shutdown()
    return code


class Watcher(Node):
    """A client of the policy: gives the instruction, arms, and counts what comes."""

    def __init__(self, instruction: str):
        super().__init__('demo')
        self.first_chunk: float | None = None       # s, time.monotonic()
        self.state = 'starting'
        self._chunks = self._trajectories = 0
        self._travel = 0.0
        self._joints: np.ndarray | None = None
        self._age = Percentiles(size=10_000)
        self._inference: dict[str, str] = {}
        self._engine: dict[str, str] = {}
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._instruction = self.create_publisher(String, 'policy/instruction', latched)
        self._instruction.publish(String(data=instruction))
        self._arm = self.create_client(SetBool, 'policy/arm')
        self._arming = None
        newest = QoSProfile(depth=1)
        self.create_subscription(ActionChunk, 'policy/action_chunk', self._on_chunk, newest)
        self.create_subscription(JointTrajectory, 'policy/joint_trajectory',
                                 self._on_trajectory, newest)
        self.create_subscription(JointState, 'joint_states', self._on_joints, 10)
        self.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)

    def keep_armed(self) -> None:
        """Ask to be armed once the node can do it."""
        if self._arming is None and self._chunks and self._arm.service_is_ready():
            self._arming = self._arm.call_async(SetBool.Request(data=True))
        elif self._arming is not None and self._arming.done():
            answer = self._arming.result()
            self.state = 'armed' if answer.success else answer.message
            if not answer.success:
                self._arming = None

    def figures(self) -> dict:
        """What was seen, with the keys of the JSON report; None where nothing was."""
        values = self._inference
        return {
            'chunks': self._chunks,
            'chunk_latency_ms': {q: _number(values.get(f'chunk latency {q} (ms)', 'nan'))
                                 for q in ('p50', 'p99')},
            'observation_age_ms': {'p50': _number(self._age.p50), 'p99': _number(self._age.p99)},
            'max_in_flight': int(values.get('max in flight', 0)),
            'trajectories': self._trajectories,
            'dropped': {key.removeprefix('dropped: '): int(value)
                        for key, value in values.items() if key.startswith('dropped: ')},
            'joint_travel_rad': self._travel,
        }

    def line(self) -> str:
        """One line of status."""
        figures = self.figures()
        if not self._chunks:
            return self.state
        return (f'{self.state} | chunks {self._chunks}, '
                f'in flight {self._inference.get("in flight", 0)} | '
                f'latency {figures["chunk_latency_ms"]["p50"] or 0:.0f} ms, '
                f'observation age {self._age.p50:.0f} ms | trajectories {self._trajectories}, '
                f'dropped {sum(figures["dropped"].values())} | travel {self._travel:.1f} rad | '
                f'device {self._device_time()}')

    def _device_time(self) -> str:
        """Part of the engine's time for each task that had any."""
        parts = {key.removesuffix(' device time (%)'): float(value)
                 for key, value in self._engine.items() if key.endswith(' device time (%)')}
        return ', '.join(f'{task} {part:.0f} %' for task, part in parts.items() if part) or 'idle'

    def _on_chunk(self, chunk: ActionChunk) -> None:
        self.first_chunk = self.first_chunk or time.monotonic()
        self._chunks += 1
        self._age.add(chunk.latency.sec * 1e3 + chunk.latency.nanosec * 1e-6)

    def _on_trajectory(self, _: JointTrajectory) -> None:
        self._trajectories += 1

    def _on_joints(self, message: JointState) -> None:
        joints = np.array([position for name, position in zip(message.name, message.position)
                           if name.startswith('panda_joint')])
        if self._joints is not None and len(self._joints) == len(joints):
            self._travel += float(np.abs(joints - self._joints).sum())
        self._joints = joints

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            if status.name.endswith(': inference'):
                self._inference = values
            elif status.name.endswith(': engine'):
                self._engine = values
            elif status.name.endswith(': model') and self.first_chunk is None:
                self.state = status.message or self.state


@contextlib.contextmanager
def _processes(checkpoint: str,
               trace: Path | None) -> Iterator[dict[str, subprocess.Popen]]:
    """The rig and the nodes, as a launch file starts them; ended with SIGINT."""
    settings = ['--ros-args', '--params-file', share_directory() / 'config/demo.yaml']
    commands = {
        'rig': ['cosmos3_ros.ros.rig.node', *settings],
        'nodes': ['cosmos3_ros.ros.process', *settings, '-p', f'checkpoint:={checkpoint}'],
    }
    if trace is not None:
        commands['nodes'] += ['-p', f'trace:={trace}']
    processes = {name: subprocess.Popen([sys.executable, '-m', *map(str, command)])
                 for name, command in commands.items()}
    try:
        yield processes
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGINT)
        for process in processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT)
            process.kill()


def _watch(watcher: Watcher, processes: dict[str, subprocess.Popen], seconds: float | None,
           stop: threading.Event) -> int:
    """Spin until it is time to end; 1 if something ended before that, or never began."""
    started = shown = time.monotonic()
    while not stop.is_set():
        rclpy.spin_once(watcher, timeout_sec=0.1)
        watcher.keep_armed()
        now = time.monotonic()
        if now - shown > (LINE_PERIOD if sys.stdout.isatty() else LOG_PERIOD):
            shown = now
            _show(watcher.line())
        if watcher.first_chunk is None and now - started > START_TIMEOUT:
            return _fail(f'no chunk within {START_TIMEOUT:.0f} s; the log above says why')
        if seconds is not None and watcher.first_chunk and now - watcher.first_chunk > seconds:
            return 0
        for name, process in processes.items():
            if process.poll() is not None and not stop.is_set():
                return _fail(f'the {name} process ended with code {process.returncode}; '
                             'the log above says why')
    return 0


def _number(value: str | float) -> float | None:
    number = float(value)
    return None if math.isnan(number) else number


def _show(line: str) -> None:
    if sys.stdout.isatty():
        print(f'\r\x1b[K{line}', end='', flush=True)
    else:
        print(line, flush=True)


def _fail(message: str) -> int:
    print(f'cosmos3 demo: {message}', file=sys.stderr)
    return 1
