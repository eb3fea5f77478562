# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Lifecycle node `reasoner`: questions about what the cameras see in, answers out."""
from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState
from rclpy.lifecycle.node import TransitionCallbackReturn
from rclpy.node import Node

from cosmos3_ros import msg
from cosmos3_ros.engine.device import pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.ros.cameras import Cameras
from cosmos3_ros.ros.diagnostics import Level, Status, diagnostic_array
from cosmos3_ros.ros.inputs import Inputs
from cosmos3_ros.ros.lifecycle import describe, refuse_wrong_transitions
from cosmos3_ros.ros.messages import to_time
from cosmos3_ros.ros.parameters import declare
from cosmos3_ros.ros.reasoner.questions import Seen, prepare
from cosmos3_ros.ros.reasoner.server import QuestionServer
from cosmos3_ros.ros.reasoner.settings import REASONER
from cosmos3_ros.tasks.question import Question
from cosmos3_ros.tasks.reason import Reasoner

STOP_TIMEOUT = 10.0     # s for questions to end: a step of the engine on a slow machine
WARM_UP = Question('What is this?', thinking=False, max_tokens=2)


class ReasonerNode(LifecycleNodeMixin, Node):
    """The reasoner as a managed node; it shares the engine and the weights with the others."""

    def __init__(self, engine: Engine, library: ModelLibrary, **node_options):
        Node.__init__(self, 'reasoner', **node_options)
        LifecycleNodeMixin.__init__(self, callback_group=ReentrantCallbackGroup())
        refuse_wrong_transitions(self)
        declare(self, REASONER)
        self._engine, self._library = engine, library
        self._state = (Level.OK, 'not loaded')
        self._inputs = Inputs(self)
        self._cameras = Cameras(self, self._inputs.node, self._value('video_memory'))
        self._server = QuestionServer(self, self._prepare, ReentrantCallbackGroup())
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(1.0, self._each_second, MutuallyExclusiveCallbackGroup(),
                          Clock(clock_type=ClockType.STEADY_TIME))

    def make_safe(self) -> None:
        """Cancel all questions. May be called in any state."""
        self._server.stop()

    def destroy_node(self) -> None:
        """Cancel all questions, wait for them, and destroy the node."""
        self.make_safe()
        self._server.wait(STOP_TIMEOUT)
        self._server.close()
        self._inputs.close()
        super().destroy_node()

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model and answer once; on failure say why and stay unconfigured."""
        reference = self._value('checkpoint')
        self._say(Level.OK, f'loading {reference}')
        try:
            if not reference:
                raise ValueError('parameter checkpoint is empty: wanted a folder, a hub id such '
                                 'as nvidia/Cosmos3-Edge, or random:tiny')
            self._server.reasoner = self._load(reference)
        except (Exception, CancelledError) as error:
            self._say(Level.ERROR, f'configure failed: {describe(error)}')
            return TransitionCallbackReturn.FAILURE
        self._say(Level.OK, f'ready: {reference}')
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take questions."""
        self._server.active = True
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Cancel questions and wait for their end."""
        self.make_safe()
        self._server.wait(STOP_TIMEOUT)
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let go of the model and of the keys and values of all questions."""
        self.make_safe()
        if not self._server.wait(STOP_TIMEOUT):
            self._say(Level.ERROR, f'a question has not ended within {STOP_TIMEOUT:.0f} s')
            return TransitionCallbackReturn.FAILURE
        self._server.reasoner = None
        self._say(Level.OK, 'not loaded')
        return super().on_cleanup(state)

    on_shutdown = on_cleanup

    def _load(self, reference: str) -> Reasoner:
        dtype = pick_dtype(self._value('precision'), self._engine.device)
        model = self._library.acquire(reference, dtype).result()
        reasoner = Reasoner(model, partial(self._engine.submit, task='reasoner', name='reason'),
                            slots=self._value('question_slots'),
                            length=self._value('question_length'),
                            fp8_decode=self._value('fp8_decode'))
        reasoner.submit(WARM_UP).result()       # takes the memory of all slots
        return reasoner

    # Questions

    def _prepare(self, message: msg.Question) -> tuple[Question, Sequence[Seen]]:
        return prepare(message, self._cameras, self._now(), self._value('max_tokens'))

    # Outputs

    def _each_second(self) -> None:
        status = Status(self.get_fully_qualified_name(), 'reasoning')
        status.report(*self._state)
        self._server.counts.report(status, self._server.open)
        self._diagnostics.publish(diagnostic_array(to_time(self._now()), [status]))

    def _say(self, level: Level, text: str) -> None:
        self._state = (level, text)
        if level == Level.ERROR:
            self.get_logger().error(text)
        else:                           # a line of its own: rclpy ties a level to the caller's
            self.get_logger().info(text)

    def _value(self, name: str) -> Any:
        return self.get_parameter(name).value

    def _now(self) -> int:
        return self.get_clock().now().nanoseconds
