# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A policy node with a fake policy, and a fake cell that talks to it over ROS only."""
from array import array
from concurrent.futures import Future
import os
import threading
import time
from types import SimpleNamespace

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
import pytest
from rclpy.context import Context
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from waiting import wait_for

os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
DOMAIN = 1 + os.getpid() % 100          # other runs on this host do not hear these tests
CAMERAS = ('wrist', 'exterior_left', 'exterior_right')
JOINTS = ('panda_joint1', 'panda_joint2', 'panda_joint3', 'panda_joint4', 'panda_joint5',
          'panda_joint6', 'panda_joint7', 'finger_joint')
POSE = (0.1, -0.4, 0.2, -2.0, 0.3, 1.6, 0.7, 0.0)   # the last: finger_joint, rad, open
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class FakePolicy:
    """Jobs that return the present state for every row, unless told otherwise."""

    def __init__(self):
        self.seen = []                  # (observation, seed) of every job
        self.release = threading.Event()
        self.release.set()              # cleared: jobs do not end
        self.rows = None                # float32 [h, 8] in the network's terms

    def __call__(self, model, observation, seed):
        self.seen.append((observation, seed))
        return self._run(observation)

    def _run(self, observation):
        while not self.release.is_set():
            time.sleep(0.002)
            yield
        row = [*observation.joints, 1 - observation.gripper]
        rows = np.tile(np.float32(row), (32, 1)) if self.rows is None else self.rows
        yield
        return SimpleNamespace(actions=np.array(rows, np.float32))


class FakeLibrary:
    """Hands out a model that has a name and nothing else, or an error."""

    def __init__(self):
        self.error = None

    def acquire(self, reference, dtype):
        future = Future()
        if self.error:
            future.set_exception(self.error)
        else:
            future.set_result(SimpleNamespace(name=reference))
        return future


class FakeCell:
    """Cameras and joint states of a robot, and a record of everything the policy says."""

    def __init__(self, context, namespace=''):
        self.node = node = Node('cell', context=context, namespace=namespace)
        self.cameras = {name: node.create_publisher(Image, f'{name}/image_raw',
                                                    qos_profile_sensor_data) for name in CAMERAS}
        self.joints = node.create_publisher(JointState, 'joint_states', 10)
        self.instruction = node.create_publisher(String, 'policy/instruction', LATCHED)
        self.arm = node.create_client(SetBool, 'policy/arm')
        self.frozen = set()             # names of streams that have stopped
        self.behind = {}                # stream: s by which its stamps lie back
        self.names, self.pose = list(JOINTS), list(POSE)
        self.chunks, self.trajectories, self.grippers = [], [], []
        self.diagnostics, self.reporting = {}, set()    # by part; names of nodes
        from cosmos3_ros.msg import ActionChunk
        for message_type, topic, record in (
                (ActionChunk, 'policy/action_chunk', self.chunks.append),
                (JointTrajectory, 'policy/joint_trajectory', self.trajectories.append),
                (JointTrajectory, 'policy/gripper_trajectory', self.grippers.append),
                (DiagnosticArray, '/diagnostics', self._note)):
            node.create_subscription(message_type, topic, record, 10)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._stream)

    def start(self):
        self._thread.start()

    def close(self):
        self._stop.set()
        self._thread.join()

    def say(self, text):
        self.instruction.publish(String(data=text))

    def publish(self):
        now = self.node.get_clock().now().nanoseconds
        for name in {*CAMERAS} - self.frozen:
            picture = Image(height=36, width=64, encoding='rgb8', step=192,
                            data=array('B', bytes(36 * 192)))
            picture.header.stamp = self._stamp(name, now)
            self.cameras[name].publish(picture)
        if 'joint_states' not in self.frozen:
            state = JointState(name=self.names, position=self.pose,
                               velocity=[0.0] * len(self.pose))
            state.header.stamp = self._stamp('joint_states', now)
            self.joints.publish(state)

    def status(self, part):
        """(level, message, values) of the newest diagnostics of one part; empty before them."""
        return self.diagnostics.get(part, (None, '', {}))

    def set_arm(self, wanted):
        """Call ~/arm; the response."""
        assert self.arm.wait_for_service(10.0)
        future = self.arm.call_async(SetBool.Request(data=wanted))
        wait_for(future.done)
        return future.result()

    def _stamp(self, name, now):
        behind = self.behind.get(name, 0.0)
        if behind is None:
            return Time()
        now -= round(behind * 1e9)
        return Time(sec=now // 10**9, nanosec=now % 10**9)

    def _note(self, message):
        for status in message.status:
            values = {value.key: value.value for value in status.values}
            node, part = status.name.split(': ')
            self.reporting.add(node)
            self.diagnostics[part] = (status.level[0], status.message, values)

    def _stream(self):
        while not self._stop.wait(1 / 20):
            self.publish()


class Setup:
    """Everything of one test."""

    def __init__(self, context):
        from cosmos3_ros.engine.engine import Engine
        self.context = context
        self.engine = Engine('cpu')
        self.library, self.policy = FakeLibrary(), FakePolicy()
        self._executors, self._nodes, self._cells = [], [], []
        self._stop = threading.Event()
        self.cell = self.another_cell()

    def another_cell(self, namespace=''):
        """A cell whose streams are running."""
        cell = FakeCell(self.context, namespace)
        self._cells.append(cell)
        self.spin(cell.node, SingleThreadedExecutor(context=self.context))
        cell.start()
        return cell

    def spin(self, node, executor=None):
        executor = executor or MultiThreadedExecutor(4, context=self.context)
        executor.add_node(node)
        thread = threading.Thread(target=self._spin, args=(executor,), daemon=True)
        self._executors.append((executor, thread))
        self._nodes.append(node)
        thread.start()

    def policy_node(self, start=True, namespace='', **parameters):
        """A policy node; wide limits, because a test machine may be slow."""
        from cosmos3_ros.ros.policy.node import PolicyNode
        values = {'checkpoint': 'fake', 'max_camera_age': 1.0, 'max_joint_age': 0.5,
                  'max_reply_age': 5.0, 'max_chunk_age': 6.0, 'give_up_age': 7.0} | parameters
        node = PolicyNode(
            self.engine, self.library, self.policy, context=self.context, namespace=namespace,
            parameter_overrides=[Parameter(name.replace('__', '.'), value=value)
                                 for name, value in values.items()])
        self.spin(node)
        if start:
            assert node.trigger_configure().name == 'SUCCESS'
            assert node.trigger_activate().name == 'SUCCESS'
        return node

    def close(self):
        self.policy.release.set()
        for cell in self._cells:
            cell.close()
        for node in self._nodes:
            if hasattr(node, 'make_safe'):
                node.make_safe()
        self.engine.close()
        self._stop.set()
        for executor, thread in self._executors:
            thread.join()
            if isinstance(executor, MultiThreadedExecutor):
                executor._executor.shutdown()   # waits for callbacks, which shutdown() does not
            executor.shutdown()
        for node in self._nodes:
            node.destroy_node()
        self.context.try_shutdown()

    def _spin(self, executor):
        while not self._stop.is_set():
            executor.spin_once(timeout_sec=0.1)


@pytest.fixture
def setup():
    """A fake cell whose streams are running, and what a policy node needs."""
    context = Context()
    context.init(args=[], domain_id=DOMAIN)
    result = Setup(context)
    yield result
    result.close()
