# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Lifecycle node `world_model`: Imagine goals in, imagined frames out."""
from __future__ import annotations

import contextlib

from rclpy.callback_groups import ReentrantCallbackGroup

from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.engine.sessions import SessionError, SessionPool
from cosmos3_ros.model.cosmos3 import Cosmos3
from cosmos3_ros.ros.diagnostics import Status
from cosmos3_ros.ros.task_node import TaskNode
from cosmos3_ros.ros.world_model.goals import Opened
from cosmos3_ros.ros.world_model.server import ImagineServer
from cosmos3_ros.ros.world_model.settings import WORLD_MODEL
from cosmos3_ros.ros.world_model.videos import Videos
from cosmos3_ros.srv import CloseSession, Steer


class WorldModelNode(TaskNode):
    """The world model as a managed node; its sessions outlast a deactivation."""

    def __init__(self, engine: Engine, library: ModelLibrary, **node_options):
        super().__init__('world_model', 'imagination', WORLD_MODEL, engine, library,
                         **node_options)
        self._sessions: SessionPool[Opened] = SessionPool(
            engine.device, self._value('session_limit'), self._value('session_idle'))
        self._videos = Videos(self, self._inputs.node, self._sessions)
        group = ReentrantCallbackGroup()
        self._server = ImagineServer(self, engine, self._sessions, self._videos, group)
        self.create_service(Steer, '~/steer', self._steer, callback_group=group)
        self.create_service(CloseSession, '~/close_session', self._close, callback_group=group)

    def _take(self, model: Cosmos3) -> None:
        self._videos.model = model

    def _let_go(self) -> None:
        for name in self._sessions.names:
            with contextlib.suppress(SessionError):     # closed meanwhile
                self._sessions.close(name)
        self._videos.model = None

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

    def _report(self, status: Status) -> None:
        for name in self._sessions.expire():
            self.get_logger().info(f'session {name} was idle too long and is closed')
        status.value('goals', self._server.goals)
        status.value('sessions', ', '.join(self._sessions.names) or 'none')
        status.value('frames published', self._server.output.frames)
