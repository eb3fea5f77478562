# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The rig on its topics: pictures, joint states, clock, commands, start and stop."""
import os
from pathlib import Path
import random
import signal
import subprocess
import sys
import time

from builtin_interfaces.msg import Duration, Time
import cv2
import numpy as np
import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from cosmos3_ros.ros.rig.node import Rig

CAMERAS = ('wrist', 'exterior_left', 'exterior_right')
ARM = [f'panda_joint{i}' for i in range(1, 8)]
HOME = [0, -np.pi / 5, 0, -4 * np.pi / 5, 0, 3 * np.pi / 5, 0]
ROOT = Path(__file__).parents[3]


class Bench:
    """A rig and a listener in one isolated context."""

    def __init__(self, **parameters):
        self.context = Context()
        rclpy.init(context=self.context, domain_id=random.randrange(1, 100))
        overrides = [Parameter(name, value=value) for name, value in
                     {'camera_width': 160, 'camera_height': 90, **parameters}.items()]
        self.rig = Rig(context=self.context, parameter_overrides=overrides)
        self.listener = rclpy.create_node('listener', context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        for node in (self.rig, self.listener):
            self.executor.add_node(node)
        self.received = {}

    def listen(self, message_type, topic, qos=qos_profile_sensor_data):
        self.received[topic] = []
        self.listener.create_subscription(message_type, topic, self.received[topic].append, qos)

    def until(self, condition, seconds=20.0):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, {k: len(v) for k, v in self.received.items()}
            self.executor.spin_once(timeout_sec=0.1)

    def count(self, topic):
        return len(self.received[topic])

    def joints(self):
        state = self.received['joint_states'][-1]
        return dict(zip(state.name, state.position))

    def close(self):
        self.rig.close()
        self.executor.shutdown()
        self.listener.destroy_node()
        self.context.shutdown()


@pytest.fixture
def bench():
    benches = []

    def make(**parameters):
        benches.append(Bench(**parameters))
        return benches[-1]
    yield make
    for one in benches:
        one.close()


def seconds(stamp):
    return stamp.sec + stamp.nanosec * 1e-9


def trajectory(names, *knots, stamp=None):
    points = [JointTrajectoryPoint(positions=[float(p) for p in positions],
                                   time_from_start=Duration(nanosec=round(t * 1e9)))
              for t, positions in knots]
    message = JointTrajectory(joint_names=names, points=points)
    message.header.stamp = stamp or Time()
    return message


def test_cameras_publish_rgb8_and_its_jpeg_with_one_stamp(bench):
    rig = bench(camera_rate=5.0)
    for camera in CAMERAS:
        rig.listen(Image, f'{camera}/image_raw')
        rig.listen(CompressedImage, f'{camera}/image_raw/compressed')
        rig.listen(CameraInfo, f'{camera}/camera_info')
    before = time.time()
    rig.rig.start()
    rig.until(lambda: all(len(messages) > 2 for messages in rig.received.values()))

    stamps = [{seconds(m.header.stamp) for m in messages} for messages in rig.received.values()]
    shared = sorted(set.intersection(*stamps))
    assert shared and before <= shared[0] <= time.time()
    for camera in CAMERAS:
        image, jpeg, info = (
            next(m for m in rig.received[f'{camera}/{topic}']
                 if seconds(m.header.stamp) == shared[-1])
            for topic in ('image_raw', 'image_raw/compressed', 'camera_info'))
        assert (image.encoding, image.width, image.height, image.step) == ('rgb8', 160, 90, 480)
        assert {m.header.frame_id for m in (image, jpeg, info)} == {f'{camera}_optical_frame'}
        pixels = np.frombuffer(image.data, np.uint8).reshape(90, 160, 3)
        decoded = cv2.imdecode(np.frombuffer(jpeg.data, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
        assert pixels.std() > 10
        assert np.abs(decoded.astype(int) - pixels).mean() < 6
        assert (info.width, info.height) == (160, 90)
        # ZED Mini 60, ZED 2 70 degrees of vertical field of view
        half_angle = np.radians(30 if camera == 'wrist' else 35)
        assert info.k[4] == pytest.approx(45 / np.tan(half_angle))


@pytest.mark.parametrize('transport, topics', [
    ('raw', {'image_raw'}), ('compressed', {'image_raw/compressed'}),
    ('both', {'image_raw', 'image_raw/compressed'})])
def test_transport_chooses_the_topics(bench, transport, topics):
    rig = bench(image_transport=transport).rig
    offered = {topic for topic, _ in rig.get_publisher_names_and_types_by_node('rig', '/')}
    assert {t for t in offered if 'image' in t} == {f'/{c}/{t}' for c in CAMERAS for t in topics}


def test_joint_states_name_all_joints_at_home(bench):
    rig = bench()
    rig.listen(JointState, 'joint_states', 10)
    rig.rig.start()
    rig.until(lambda: rig.count('joint_states') > 5)
    state = rig.received['joint_states'][-1]
    assert state.name == [*ARM, 'finger_joint']
    assert list(state.position) == pytest.approx([*HOME, 0], abs=1e-3)
    assert len(state.velocity) == len(state.effort) == 8
    assert abs(state.effort[1]) > 5  # the shoulder carries the arm
    assert abs(seconds(state.header.stamp) - time.time()) < 2


def test_arm_and_gripper_follow_trajectories(bench):
    rig = bench()
    rig.listen(JointState, 'joint_states', 10)
    arm = rig.listener.create_publisher(JointTrajectory, 'policy/joint_trajectory', 1)
    gripper = rig.listener.create_publisher(JointTrajectory, 'policy/gripper_trajectory', 1)
    rig.rig.start()
    rig.until(lambda: rig.count('joint_states') and arm.get_subscription_count()
              and gripper.get_subscription_count())
    goal = np.add(HOME, [0.3, 0.1, -0.2, 0.2, 0.1, -0.1, 0.4])
    arm.publish(trajectory(ARM[::-1], (0.2, np.add(HOME, goal)[::-1] / 2), (0.5, goal[::-1])))
    gripper.publish(trajectory(['finger_joint'], (0.3, [0.6])))

    def arrived():
        joints = rig.joints()
        return np.allclose([*(joints[name] for name in ARM), joints['finger_joint']],
                           [*goal, 0.6], atol=5e-3)
    rig.until(arrived)


def test_bad_trajectories_are_refused_and_the_arm_stays(bench):
    rig = bench()
    rig.listen(JointState, 'joint_states', 10)
    arm = rig.listener.create_publisher(JointTrajectory, 'policy/joint_trajectory', 10)
    warnings = []
    rig.rig.get_logger().warning = lambda text, **_: warnings.append(text)
    logger = rig.rig.get_logger()
    rig.rig.get_logger = lambda: logger
    rig.rig.start()
    rig.until(lambda: rig.count('joint_states') and arm.get_subscription_count())
    bad = [trajectory([*ARM, 'finger_joint'], (0.1, [0.5] * 8)),
           trajectory(ARM[:6], (0.1, [0.5] * 6)),
           trajectory(ARM, (0.1, [np.nan] * 7)),
           trajectory(ARM, (0.2, [0.5] * 7), (0.1, [0.5] * 7)),
           trajectory(ARM, (0.1, [0.5] * 7), stamp=Time(sec=1000))]
    for i, message in enumerate(bad):
        arm.publish(message)
        rig.until(lambda wanted=i + 1: len(warnings) >= wanted)
    reasons = ('finger_joint', 'panda_joint7', 'nan', 'rising', 'past')
    for warning, reason in zip(warnings, reasons):
        assert warning.startswith('policy/joint_trajectory') and reason in warning
    seen = rig.count('joint_states')
    rig.until(lambda: rig.count('joint_states') > seen + 50)
    assert [rig.joints()[name] for name in ARM] == pytest.approx(HOME, abs=1e-3)


def test_simulated_time_runs_ahead_and_stamps_everything(bench):
    rig = bench(publish_clock=True, real_time_factor=0.0, camera_rate=10.0)
    rig.listen(Clock, '/clock', 10)
    rig.listen(JointState, 'joint_states', 10)
    rig.listen(Image, 'exterior_left/image_raw')
    rig.rig.start()
    rig.until(lambda: rig.count('exterior_left/image_raw') > 8)
    clock = [seconds(m.clock) for m in rig.received['/clock']]
    assert clock == sorted(clock) and clock[0] > 0
    images = [seconds(m.header.stamp) for m in rig.received['exterior_left/image_raw']]
    assert images[-1] < 1000  # seconds since the start, not since 1970
    np.testing.assert_allclose(np.diff(images) / 0.1, np.round(np.diff(images) / 0.1), atol=0.05)
    states = [seconds(m.header.stamp) for m in rig.received['joint_states']]
    assert states[0] > 0 and abs(states[-1] - clock[-1]) < 1


def test_a_stamp_in_simulated_time_delays_the_motion(bench):
    rig = bench(publish_clock=True)
    rig.listen(JointState, 'joint_states', 10)
    arm = rig.listener.create_publisher(JointTrajectory, 'policy/joint_trajectory', 1)
    rig.rig.start()
    rig.until(lambda: rig.count('joint_states') and arm.get_subscription_count())
    start = rig.received['joint_states'][-1].header.stamp.sec + 2
    goal = [0.3, *HOME[1:]]
    arm.publish(trajectory(ARM, (0.1, goal), stamp=Time(sec=start)))
    rig.until(lambda: abs(rig.joints()['panda_joint1'] - 0.3) < 5e-3)
    moving = next(m for m in rig.received['joint_states'] if abs(m.position[0]) > 5e-3)
    assert start - 0.02 < seconds(moving.header.stamp) < start + 0.2


@pytest.mark.parametrize('parameters, message', [
    ({'image_transport': 'h264'}, 'image_transport .* raw, compressed, both'),
    ({'real_time_factor': 0.0}, 'real_time_factor')])
def test_bad_parameters_are_named(bench, parameters, message):
    with pytest.raises(ValueError, match=message):
        bench(**parameters)


def test_parameters_have_descriptions_and_ranges(bench):
    rig = bench().rig
    for name in ('camera_width', 'camera_rate', 'joint_state_rate', 'arm_command_topic'):
        assert rig.describe_parameter(name).description
    assert rig.describe_parameter('camera_width').integer_range[0].from_value > 0
    assert rig.describe_parameter('camera_rate').floating_point_range[0].from_value > 0


def run(*arguments):
    environment = {**os.environ, 'ROS_DOMAIN_ID': str(random.randrange(1, 100)),
                   'PYTHONPATH': os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')])}
    return subprocess.Popen(
        [sys.executable, '-m', 'cosmos3_ros.ros.rig.node', '--ros-args', *arguments], cwd=ROOT,
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize('stop', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_cleanly(stop):
    process = run('--params-file', str(ROOT / 'config' / 'rig.yaml'))
    line = process.stdout.readline()
    while line and 'rig is running' not in line:
        line = process.stdout.readline()
    process.send_signal(stop)
    rest, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert 'Traceback' not in rest


def test_a_parameter_of_the_wrong_type_is_one_line_and_exit_code_1():
    process = run('-p', 'camera_rate:=fast')
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert 'camera_rate' in output and 'Traceback' not in output
