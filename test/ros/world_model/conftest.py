# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A world-model node with a tiny network, and a client of it."""
from concurrent.futures import Future
import threading
from types import SimpleNamespace

from cosmos3_ros.action import Imagine
from cosmos3_ros.msg import RolloutFrame
from cosmos3_ros.srv import CloseSession, Steer
import numpy as np
import pytest
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image

from action_client import ActionClient
from waiting import wait_for

CAMERAS = ('wrist', 'exterior_left', 'exterior_right')
SMALL = {'width': 32, 'height': 32, 'steps': 2, 'guidance': 1.0,
         'overlap': -1, 'history': -1, 'anchor': -1}


class Goal:
    """A goal that was sent."""

    def __init__(self, client, request):
        self.feedback = []
        future = client.send_goal_async(
            request, feedback_callback=lambda message: self.feedback.append(message.feedback))
        wait_for(future.done)
        self.handle = future.result()
        self.accepted = self.handle.accepted
        self._result = self.handle.get_result_async() if self.accepted else None

    @property
    def done(self):
        return self._result.done()

    def cancel(self):
        """Future of the answer to a cancel."""
        return self.handle.cancel_goal_async()

    def ended(self, timeout=30.0):
        """(status, result), once the goal has ended."""
        wait_for(self._result.done, timeout)
        return self._result.result().status, self._result.result().result


class Reader:
    """Knows the node by its topics, services and action only."""

    def __init__(self, context):
        self.node = node = Node('reader', context=context)
        self.frames, self.images = [], []
        qos = QoSProfile(depth=256)
        self._subscriptions = [
            node.create_subscription(RolloutFrame, 'world_model/frame', self.frames.append, qos),
            node.create_subscription(Image, 'world_model/image', self.images.append, qos)]
        self._action = ActionClient(node, Imagine, 'world_model/imagine')
        self._steer = node.create_client(Steer, 'world_model/steer')
        self._close = node.create_client(CloseSession, 'world_model/close_session')
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(node)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()

    def meet(self):
        """Wait until the node is found."""
        wait_for(lambda: self._action.server_is_ready() and self._steer.service_is_ready()
                 and self._close.service_is_ready()
                 and all(topic.get_publisher_count() for topic in self._subscriptions), 60)

    def see(self):
        """Wait until the node has a picture of every camera."""
        for camera in CAMERAS:
            wait_for(lambda camera=camera: self._seen(camera))
        self.frames.clear()
        self.images.clear()

    def send(self, prompt='a cup falls', frames=29, **fields):
        return Goal(self._action, Imagine.Goal(prompt=prompt, frames=frames, **(SMALL | fields)))

    def run(self, *arguments, **fields):
        """(status, result) of a goal."""
        return self.send(*arguments, **fields).ended()

    def steer(self, session, prompt):
        return self._call(self._steer, Steer.Request(session=session, prompt=prompt))

    def close_session(self, session):
        return self._call(self._close, CloseSession.Request(session=session))

    def indices(self, session):
        return [frame.index for frame in self.frames if frame.session == session]

    def video(self, session, count):
        """Pixels of the first frames of a session, uint8 [count, H, W, 3]; all must have come."""
        wait_for(lambda: len(self.indices(session)) >= count)
        frames = [frame for frame in self.frames if frame.session == session][:count]
        assert [frame.index for frame in frames] == list(range(count))
        wait_for(lambda: all(self._picture(frame) for frame in frames))
        return np.stack([pixels(self._picture(frame)) for frame in frames])

    def close(self):
        self._stop.set()
        self._thread.join()
        self._executor.shutdown()
        self._action.destroy()          # it would keep its context alive, and be seen by others
        self.node.destroy_node()

    def _seen(self, camera):
        result = self.run(camera=camera, frames=1, steps=1)[1]
        return result.session and self.close_session(result.session).success

    def _picture(self, frame):
        return next((image for image in self.images if image.header == frame.header), None)

    def _call(self, client, request):
        future = client.call_async(request)
        wait_for(future.done)
        return future.result()

    def _spin(self):
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=0.1)


class Pace:
    """Lets a number of windows be denoised; the next one waits, at a yield, before its steps."""

    def __init__(self, denoise):
        self._denoise = denoise
        self.windows = 0                # that have begun
        self.allowed = 1000
        self.error = None               # raised instead of the steps of a window

    def __call__(self, *arguments, **options):
        self.windows += 1
        number = self.windows
        while number > self.allowed:
            yield
        if self.error is not None:
            yield
            raise self.error
        return (yield from self._denoise(*arguments, **options))


def pixels(image):
    assert image.encoding == 'rgb8' and image.step == image.width * 3
    return np.frombuffer(image.data, np.uint8).reshape(image.height, image.width, 3)


@pytest.fixture(scope='session')
def model():
    from cosmos3_ros.model.checkpoint import load
    return load('random:tiny')


@pytest.fixture
def pace(monkeypatch):
    from cosmos3_ros.tasks import rollout
    result = Pace(rollout.denoise)
    monkeypatch.setattr(rollout, 'denoise', result)
    return result


@pytest.fixture
def start(setup, model):
    """Start a node: unconfigured, or active."""
    from cosmos3_ros.ros.world_model.node import WorldModelNode

    def acquire(reference, dtype):
        future = Future()
        future.set_result(model)
        return future

    def run(active=True, **parameters):
        node = WorldModelNode(
            setup.engine, SimpleNamespace(acquire=acquire), context=setup.context,
            parameter_overrides=[Parameter(name, value=value) for name, value in
                                 ({'checkpoint': 'fake', 'max_camera_age': 5.0}
                                  | parameters).items()])
        setup.spin(node)
        if active:
            assert node.trigger_configure().name == 'SUCCESS'
            assert node.trigger_activate().name == 'SUCCESS'
        return node

    return run


@pytest.fixture
def reader(setup):
    result = Reader(setup.context)
    yield result
    result.close()


@pytest.fixture
def world(start, reader):
    """A reader that has met an active node."""
    start()
    reader.meet()
    return reader
