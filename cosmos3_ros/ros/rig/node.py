# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Node `rig`: the simulated DROID cell behind the topics of a real one.

Physics and joint states run in one thread, rendering in another, subscriptions in the executor's.
Trajectories are sampled at the control rate, 15 Hz as on a DROID robot, one period ahead; set
points move in a straight line from sample to sample, so the arm is where the trajectory says.
"""
from collections.abc import Callable
import contextlib
import queue
import signal
import threading
import time

import numpy as np
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import SingleThreadedExecutor
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory

from cosmos3_ros.rig.controller import TrajectoryError, TrajectoryFollower
from cosmos3_ros.rig.pictures import Pictures, camera_matrix
from cosmos3_ros.rig.simulation import ARM_JOINTS, CAMERAS, GRIPPER_JOINT, HOME, Cell
from cosmos3_ros.ros.rig import messages

TRANSPORTS = ('raw', 'compressed', 'both')
# A host that falls behind by more than this goes on from the present instead of catching up.
MAX_LAG_S = 0.25

# name: default, description, (from, to)
PARAMETERS = {
    'camera_width': (640, 'Width of the pictures (pixels).', (16, 1920)),
    'camera_height': (360, 'Height of the pictures (pixels).', (16, 1080)),
    'camera_rate': (15.0, 'Pictures of each camera (Hz).', (0.1, 60.0)),
    'image_transport': ('both', f'Topics offered: one of {", ".join(TRANSPORTS)}.', None),
    'jpeg_quality': (95, 'Quality of compressed pictures.', (1, 100)),
    'shadows': (False, 'Draw shadows; several times the cost without a GPU.', None),
    'joint_state_rate': (100.0, 'Joint states (Hz).', (1.0, 500.0)),
    'control_rate': (15.0, 'Samples of the trajectories sent to the joints (Hz).', (1.0, 500.0)),
    'publish_clock': (False, 'Publish /clock and stamp with simulated time; else the node clock.',
                      None),
    'real_time_factor': (1.0, 'Simulated seconds per second; 0: no limit, with publish_clock only.',
                         (0.0, 100.0)),
    'arm_command_topic': ('policy/joint_trajectory', 'JointTrajectory of the seven arm joints.',
                          None),
    'gripper_command_topic': ('policy/gripper_trajectory',
                              'JointTrajectory of finger_joint (rad, 0 open, 0.8 closed).', None),
}


class Rig(Node):
    """Publishes cameras and joint states, follows joint trajectories; `start` sets it going."""

    def __init__(self, **node_options):
        super().__init__('rig', **node_options)
        self._settings = {name: self._declare(name, *rest) for name, rest in PARAMETERS.items()}
        self._check_settings()
        self._size = self._settings['camera_width'], self._settings['camera_height']
        self._cell = Cell()
        self._followers = [TrajectoryFollower(names, [HOME[name] for name in names])
                           for names in (ARM_JOINTS, (GRIPPER_JOINT,))]
        self._commands = threading.Lock()  # guards the followers
        self._snapshots: queue.Queue = queue.Queue(maxsize=1)  # the latest waits here
        self._ready = threading.Event()
        self._stop = threading.Event()
        self.failure: Exception | None = None
        self._advertise()
        for topic, follower in zip(('arm', 'gripper'), self._followers):
            self._subscribe(self._settings[f'{topic}_command_topic'], follower)
        self._threads = [threading.Thread(target=self._guard, args=(work,), name=work.__name__)
                         for work in (self._run_physics, self._run_cameras)]

    @property
    def running(self) -> bool:
        """False after `close`, or once a thread has failed (see `failure`)."""
        return not self._stop.is_set()

    def start(self) -> None:
        """Start physics and cameras."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop both threads, wait for them, and destroy the node."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self.destroy_node()

    # Set-up

    def _declare(self, name: str, default, description: str, limits):
        descriptor = ParameterDescriptor(description=description, read_only=True)
        if limits and isinstance(default, int):
            descriptor.integer_range = [IntegerRange(from_value=limits[0], to_value=limits[1])]
        elif limits:
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=limits[0], to_value=limits[1])]
        return self.declare_parameter(name, default, descriptor).value

    def _check_settings(self) -> None:
        transport = self._settings['image_transport']
        if transport not in TRANSPORTS:
            raise ValueError(f'parameter image_transport is {transport!r}: '
                             f'wanted one of {", ".join(TRANSPORTS)}')
        if self._settings['real_time_factor'] == 0 and not self._settings['publish_clock']:
            raise ValueError('parameter real_time_factor is 0: wanted above 0, '
                             'or publish_clock: true')

    def _advertise(self) -> None:
        transport = self._settings['image_transport']
        self._raw, self._jpeg, self._info = {}, {}, {}
        for camera in CAMERAS:
            topic, qos = f'{camera}/image_raw', qos_profile_sensor_data
            if transport != 'compressed':
                self._raw[camera] = self.create_publisher(Image, topic, qos)
            if transport != 'raw':
                self._jpeg[camera] = self.create_publisher(
                    CompressedImage, f'{topic}/compressed', qos)
            self._info[camera] = self.create_publisher(CameraInfo, f'{camera}/camera_info', qos)
        self._joint_states = self.create_publisher(JointState, 'joint_states', 10)
        if self._settings['publish_clock']:
            self._clock_topic = self.create_publisher(Clock, '/clock', 10)

    def _subscribe(self, topic: str, follower: TrajectoryFollower) -> None:
        def follow(message: JointTrajectory) -> None:
            points, start = messages.trajectory(message)
            try:
                with self._commands:
                    follower.accept(message.joint_names, points, start, self._now() * 1e-9)
            except TrajectoryError as error:
                self.get_logger().warning(f'{topic}: trajectory refused, {error}',
                                          throttle_duration_sec=1.0)
        self.create_subscription(JointTrajectory, topic, follow, QoSProfile(depth=1))

    # Threads

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  the process ends, with the reason
            if self.running:
                self.failure = error
                self.get_logger().fatal(f'{work.__name__}: {type(error).__name__}: {error}')
        self._stop.set()

    def _now(self) -> int:
        """Nanoseconds on the clock of the stamps."""
        if self._settings['publish_clock']:
            return round(self._cell.time * 1e9)
        return self.get_clock().now().nanoseconds

    def _run_physics(self) -> None:
        settings = self._settings
        events = {self._control: settings['control_rate'],
                  self._publish_joints: settings['joint_state_rate'],
                  self._take_snapshot: settings['camera_rate']}
        while self.running and not self._ready.wait(0.1):
            pass
        self.get_logger().info('rig is running')
        counts = dict.fromkeys(events, 1)  # none at time 0: a zero stamp says something else
        pace = _Pace(settings['real_time_factor'])
        while not self._stop.is_set():
            due = min(counts[event] / events[event] for event in events)
            self._cell.step(due - self._cell.time)
            pace.wait(self._cell.time, self._stop)
            if settings['publish_clock']:
                self._clock_topic.publish(Clock(clock=messages.stamp(self._now())))
            for event, rate in events.items():
                if counts[event] / rate <= due:
                    counts[event] += 1
                    event()

    def _control(self) -> None:
        period = 1 / self._settings['control_rate']
        with self._commands:
            ahead = self._now() * 1e-9 + period
            for follower in self._followers:
                target = dict(zip(follower.joint_names, follower.sample(ahead)))
                self._cell.set_target(target, over=period)

    def _publish_joints(self) -> None:
        reading = self._cell.read()
        self._joint_states.publish(messages.joint_state(reading, messages.stamp(self._now())))

    def _take_snapshot(self) -> None:
        """Hand the moment to the camera thread: simulated time waits for it, real time does not."""
        snapshot = self._cell.qpos, messages.stamp(self._now())
        if self._settings['publish_clock']:
            while self._snapshots.full() and self.running:
                self._stop.wait(0.001)
        elif self._snapshots.full():
            self._drop_snapshot()
        with contextlib.suppress(queue.Full):  # only when stopped
            self._snapshots.put_nowait(snapshot)

    def _drop_snapshot(self) -> None:
        self.get_logger().warning('rendering is slower than camera_rate, a picture was left out: '
                                  'lower camera_rate or the size', throttle_duration_sec=10.0)
        with contextlib.suppress(queue.Empty):
            self._snapshots.get_nowait()

    def _run_cameras(self) -> None:
        pictures = Pictures(self._cell.model)
        self._render(pictures, CAMERAS[0])  # set up OpenGL, which would hold up physics later
        self._ready.set()
        while not self._stop.is_set():
            try:
                qpos, moment = self._snapshots.get(timeout=0.1)
            except queue.Empty:
                continue
            pictures.place(qpos)
            for camera in CAMERAS:
                self._publish_camera(camera, pictures, moment)
        pictures.close()

    def _publish_camera(self, camera: str, pictures: Pictures, moment) -> None:
        """Publish what is subscribed to; all three cameras share the moment's stamp."""
        header = Header(stamp=moment, frame_id=f'{camera}_optical_frame')
        if _wanted(self._info, camera):
            matrix = camera_matrix(self._cell.model, camera, *self._size)
            self._info[camera].publish(messages.camera_info(matrix, *self._size, header))
        raw, jpeg = _wanted(self._raw, camera), _wanted(self._jpeg, camera)
        if not (raw or jpeg):
            return
        rgb = self._render(pictures, camera)
        if raw:
            self._raw[camera].publish(messages.image(rgb, header))
        if jpeg:
            quality = self._settings['jpeg_quality']
            self._jpeg[camera].publish(messages.compressed(rgb, header, quality))

    def _render(self, pictures: Pictures, camera: str) -> np.ndarray:
        return pictures.render(camera, *self._size, self._settings['shadows'])


class _Pace:
    """Keeps simulated time at `factor` times the wall's; 0 never waits."""

    def __init__(self, factor: float):
        self._factor = factor
        self._wall, self._simulated = time.monotonic(), 0.0

    def wait(self, simulated: float, stop: threading.Event) -> None:
        if not self._factor:
            return
        ahead = self._wall + (simulated - self._simulated) / self._factor - time.monotonic()
        if ahead > 0:
            stop.wait(ahead)
        elif ahead < -MAX_LAG_S:
            self._wall, self._simulated = time.monotonic(), simulated


def _wanted(publishers: dict, camera: str) -> bool:
    return camera in publishers and publishers[camera].get_subscription_count() > 0


def main(args: list[str] | None = None) -> int:
    """Run the rig until SIGINT or SIGTERM; return 0, or 1 when it cannot go on. Main thread only.

    Own signal handlers: rclpy's end the context at once, also in the middle of set-up.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        return _spin(Rig(), stop)
    except (ValueError, ParameterException) as error:
        get_logger('rig').fatal(str(error))
        return 1
    finally:
        rclpy.try_shutdown()


def _spin(rig: Rig, stop: threading.Event) -> int:
    executor = SingleThreadedExecutor()
    executor.add_node(rig)
    rig.start()
    while rclpy.ok() and rig.running and not stop.is_set():
        executor.spin_once(timeout_sec=0.5)
    rig.close()
    executor.shutdown()
    return 0 if rig.failure is None else 1


if __name__ == '__main__':
    raise SystemExit(main())
