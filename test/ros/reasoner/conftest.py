# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A reasoner node with the tiny checkpoint, and a plain client of it."""
from concurrent.futures import Future

import pytest
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile

from action_client import ActionClient
from waiting import wait_for


class Desk:
    """A node that answers, and both ways to ask it."""

    def __init__(self, setup, model):
        from cosmos3_ros.action import Reason
        from cosmos3_ros.srv import Ask
        self.setup, self.model = setup, model
        self.service = setup.cell.node.create_client(Ask, 'reasoner/ask')
        self.action = ActionClient(setup.cell.node, Reason, 'reasoner/reason',
                                   feedback_sub_qos_profile=QoSProfile(depth=1000))

    def acquire(self, reference, dtype):
        """What a ModelLibrary does."""
        future = Future()
        future.set_result(self.model)
        return future

    def node(self, start=True, **parameters):
        from cosmos3_ros.ros.reasoner.node import ReasonerNode
        values = {'checkpoint': 'tiny', 'max_camera_age': 5.0, 'max_tokens': 16} | parameters
        node = ReasonerNode(
            self.setup.engine, self, context=self.setup.context,
            parameter_overrides=[Parameter(name.replace('__', '.'), value=value)
                                 for name, value in values.items()])
        self.setup.spin(node)
        if start:
            assert node.trigger_configure().name == 'SUCCESS'
            assert node.trigger_activate().name == 'SUCCESS'
            wait_for(lambda: self.service.service_is_ready() and self.action.server_is_ready())
        return node

    def ask_async(self, text='What is on the table?', **fields):
        from cosmos3_ros.msg import Question
        from cosmos3_ros.srv import Ask
        return self.service.call_async(Ask.Request(question=Question(text=text, **fields)))

    def ask(self, *words, **fields):
        """The answer of the service."""
        future = self.ask_async(*words, **fields)
        wait_for(future.done)
        return future.result().answer

    def send_async(self, text='What is on the table?', **fields):
        """Send a goal: future of its handle, and the list that its feedback goes to."""
        from cosmos3_ros.action import Reason
        from cosmos3_ros.msg import Question
        feedback = []
        future = self.action.send_goal_async(
            Reason.Goal(question=Question(text=text, **fields)),
            feedback_callback=lambda message: feedback.append(message.feedback))
        return future, feedback

    def send(self, *words, **fields):
        future, feedback = self.send_async(*words, **fields)
        wait_for(future.done)
        return future.result(), feedback

    @staticmethod
    def ended(handle):
        """Status and answer of a goal, once it has ended."""
        future = handle.get_result_async()
        wait_for(future.done, 30)
        return future.result().status, future.result().result.answer

    def wait_for_pictures(self):
        """Until every camera has been heard."""
        names = ['wrist', 'exterior_left', 'exterior_right']
        wait_for(lambda: not self.ask(cameras=names, max_tokens=1).error)


@pytest.fixture
def desk(setup, tiny):
    return Desk(setup, tiny)
