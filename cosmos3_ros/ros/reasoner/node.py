# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Lifecycle node `reasoner`: questions about what the cameras see in, answers out."""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rclpy.callback_groups import ReentrantCallbackGroup

from cosmos3_ros import msg
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.model.cosmos3 import Cosmos3
from cosmos3_ros.ros.cameras import Cameras
from cosmos3_ros.ros.diagnostics import Status
from cosmos3_ros.ros.reasoner.questions import Seen, prepare
from cosmos3_ros.ros.reasoner.server import QuestionServer
from cosmos3_ros.ros.reasoner.settings import REASONER
from cosmos3_ros.ros.task_node import TaskNode
from cosmos3_ros.tasks.question import Question
from cosmos3_ros.tasks.reason import Reasoner

WARM_UP = Question('What is this?', thinking=False, max_tokens=2)


class ReasonerNode(TaskNode):
    """The reasoner as a managed node; once loaded, it answers once before it is ready."""

    def __init__(self, engine: Engine, library: ModelLibrary, **node_options):
        super().__init__('reasoner', 'reasoning', REASONER, engine, library, **node_options)
        self._cameras = Cameras(self, self._inputs.node, self._value('video_memory'))
        self._server = QuestionServer(self, self._prepare, ReentrantCallbackGroup())

    def _take(self, model: Cosmos3) -> None:
        reasoner = Reasoner(model, partial(self._engine.submit, task='reasoner', name='reason'),
                            slots=self._value('question_slots'),
                            length=self._value('question_length'),
                            fp8_decode=self._value('fp8_decode'))
        reasoner.submit(WARM_UP).result()       # takes the memory of all slots
        self._server.reasoner = reasoner

    def _let_go(self) -> None:
        self._server.reasoner = None

    def _report(self, status: Status) -> None:
        self._server.counts.report(status, self._server.open)

    def _prepare(self, message: msg.Question) -> tuple[Question, Sequence[Seen]]:
        return prepare(message, self._cameras, self._now(), self._value('max_tokens'))
