# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Lifecycle node `world_model`: Imagine goals in, imagined frames out."""
from __future__ import annotations

from concurrent.futures import CancelledError
import contextlib
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState
from rclpy.lifecycle.node import TransitionCallbackReturn
from rclpy.node import Node

from cosmos3_ros.engine.device import pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.engine.sessions import SessionError, SessionPool
from cosmos3_ros.ros.diagnostics import Level, Status, diagnostic_array
from cosmos3_ros.ros.inputs import Inputs
from cosmos3_ros.ros.lifecycle import describe, refuse_wrong_transitions
from cosmos3_ros.ros.messages import to_time
from cosmos3_ros.ros.parameters import declare
from cosmos3_ros.ros.world_model.goals import Opened
from cosmos3_ros.ros.world_model.server import ImagineServer
from cosmos3_ros.ros.world_model.settings import WORLD_MODEL
from cosmos3_ros.ros.world_model.videos import Videos
from cosmos3_ros.srv import CloseSession, Steer

STOP_TIMEOUT = 10.0     # s for goals to end: a step of the engine on a slow machine


class WorldModelNode(LifecycleNodeMixin, Node):
    """The world model as a managed node; it shares the engine and the weights with the others."""

    def __init__(self, engine: Engine, library: ModelLibrary, **node_options):
        Node.__init__(self, 'world_model', **node_options)
        LifecycleNodeMixin.__init__(self, callback_group=ReentrantCallbackGroup())
        refuse_wrong_transitions(self)
        declare(self, WORLD_MODEL)
        self._engine, self._library = engine, library
        self._state = (Level.OK, 'not loaded')
        self._sessions: SessionPool[Opened] = SessionPool(
            engine.device, self._value('session_limit'), self._value('session_idle'))
        self._inputs = Inputs(self)
        self._videos = Videos(self, self._inputs.node, self._sessions)
        group = ReentrantCallbackGroup()
        self._server = ImagineServer(self, engine, self._sessions, self._videos, group)
        self.create_service(Steer, '~/steer', self._steer, callback_group=group)
        self.create_service(CloseSession, '~/close_session', self._close, callback_group=group)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(1.0, self._each_second, MutuallyExclusiveCallbackGroup(),
                          Clock(clock_type=ClockType.STEADY_TIME))

    def make_safe(self) -> None:
        """Cancel all goals. May be called in any state."""
        self._server.stop()

    def destroy_node(self) -> None:
        """Cancel all goals, wait for them, and destroy the node."""
        self.make_safe()
        self._server.wait(STOP_TIMEOUT)
        self._inputs.close()
        self._server.destroy()
        super().destroy_node()

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model; on failure say why and stay unconfigured."""
        reference = self._value('checkpoint')
        self._say(Level.OK, f'loading {reference}')
        try:
            if not reference:
                raise ValueError('parameter checkpoint is empty: wanted a folder, a hub id such '
                                 'as nvidia/Cosmos3-Edge, or random:tiny')
            dtype = pick_dtype(self._value('precision'), self._engine.device)
            self._videos.model = self._library.acquire(reference, dtype).result()
        except (Exception, CancelledError) as error:
            self._say(Level.ERROR, f'configure failed: {describe(error)}')
            return TransitionCallbackReturn.FAILURE
        self._say(Level.OK, f'ready: {reference}')
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take goals."""
        self._server.active = True
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Cancel goals and wait for their end; sessions stay."""
        self.make_safe()
        self._server.wait(STOP_TIMEOUT)
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let go of sessions and model."""
        self.make_safe()
        if not self._server.wait(STOP_TIMEOUT):
            self._say(Level.ERROR, f'a goal has not ended within {STOP_TIMEOUT:.0f} s')
            return TransitionCallbackReturn.FAILURE
        for name in self._sessions.names:
            with contextlib.suppress(SessionError):     # closed meanwhile
                self._sessions.close(name)
        self._videos.model = None
        self._say(Level.OK, 'not loaded')
        return super().on_cleanup(state)

    on_shutdown = on_cleanup

    # Sessions

    def _steer(self, request: Steer.Request, response: Steer.Response) -> Steer.Response:
        try:
            response.window = self._sessions.peek(request.session).steer(request.prompt)
            response.success = True
        except ValueError as error:
            response.message = str(error)
        return response

    def _close(self, request: CloseSession.Request,
               response: CloseSession.Response) -> CloseSession.Response:
        try:
            response.bytes_freed = self._sessions.close(request.session)
            response.success = True
        except SessionError as error:
            response.message = str(error)
        return response

    # Outputs

    def _each_second(self) -> None:
        for name in self._sessions.expire():
            self.get_logger().info(f'session {name} was idle too long and is closed')
        status = Status(self.get_fully_qualified_name(), 'imagination')
        status.report(*self._state)
        status.value('goals', self._server.goals)
        status.value('sessions', ', '.join(self._sessions.names) or 'none')
        status.value('frames published', self._server.output.frames)
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
