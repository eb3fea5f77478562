# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A managed node that serves one task: its life from loading a checkpoint to letting it go."""
from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import CancelledError
from typing import Any, Protocol

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState
from rclpy.lifecycle.node import TransitionCallbackReturn
from rclpy.node import Node

from cosmos3_ros.engine.device import pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.model.cosmos3 import Cosmos3
from cosmos3_ros.ros.diagnostics import Level, Status, diagnostic_array
from cosmos3_ros.ros.inputs import Inputs
from cosmos3_ros.ros.lifecycle import describe, refuse_wrong_transitions
from cosmos3_ros.ros.messages import to_time
from cosmos3_ros.ros.parameters import Parameter, declare

STOP_TIMEOUT = 10.0     # s for requests to end: a step of the engine on a slow machine


class Server(Protocol):
    """What takes the requests of a node, while `active`."""

    active: bool

    def stop(self) -> None:
        """Take no more and cancel what is open. From any thread."""

    def wait(self, timeout: float) -> bool:
        """Wait until nothing is open; whether that came in time (s)."""

    def close(self) -> None:
        """Give up the node's services and actions."""


class TaskNode(LifecycleNodeMixin, Node):
    """A managed node that shares the engine and the weights with the others.

    A subclass sets `_server` when it is made, takes a model in `_take` and lets go of it in
    `_let_go`, and adds to its status, which is called `doing`, in `_report`.
    """

    _server: Server

    def __init__(self, name: str, doing: str, parameters: Mapping[str, Parameter], engine: Engine,
                 library: ModelLibrary, **node_options):
        Node.__init__(self, name, **node_options)
        LifecycleNodeMixin.__init__(self, callback_group=ReentrantCallbackGroup())
        refuse_wrong_transitions(self)
        declare(self, parameters)
        self._engine, self._library, self._doing = engine, library, doing
        self._state = (Level.OK, 'not loaded')
        self._inputs = Inputs(self)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(1.0, self._each_second, MutuallyExclusiveCallbackGroup(),
                          Clock(clock_type=ClockType.STEADY_TIME))

    def make_safe(self) -> None:
        """Cancel all requests. May be called in any state."""
        self._server.stop()

    def destroy_node(self) -> None:
        """Cancel all requests, wait for them, and destroy the node."""
        self.make_safe()
        self._server.wait(STOP_TIMEOUT)
        self._inputs.close()
        self._server.close()
        super().destroy_node()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model; on failure say why and stay unconfigured."""
        reference = self._value('checkpoint')
        self._say(Level.OK, f'loading {reference}')
        try:
            if not reference:
                raise ValueError('parameter checkpoint is empty: wanted a folder, a hub id such '
                                 'as nvidia/Cosmos3-Edge, or random:tiny')
            dtype = pick_dtype(self._value('precision'), self._engine.device)
            self._take(self._library.acquire(reference, dtype).result())
        except (Exception, CancelledError) as error:
            self._say(Level.ERROR, f'configure failed: {describe(error)}')
            return TransitionCallbackReturn.FAILURE
        self._say(Level.OK, f'ready: {reference}')
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take requests."""
        self._server.active = True
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Cancel requests and wait for their end."""
        self.make_safe()
        self._server.wait(STOP_TIMEOUT)
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let go of the model and of what was kept with it."""
        self.make_safe()
        if not self._server.wait(STOP_TIMEOUT):
            self._say(Level.ERROR, f'a request has not ended within {STOP_TIMEOUT:.0f} s')
            return TransitionCallbackReturn.FAILURE
        self._let_go()
        self._say(Level.OK, 'not loaded')
        return super().on_cleanup(state)

    on_shutdown = on_cleanup

    def _take(self, model: Cosmos3) -> None:
        raise NotImplementedError

    def _let_go(self) -> None:
        raise NotImplementedError

    def _report(self, status: Status) -> None:
        raise NotImplementedError

    def _each_second(self) -> None:
        status = Status(self.get_fully_qualified_name(), self._doing)
        status.report(*self._state)
        self._report(status)
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
