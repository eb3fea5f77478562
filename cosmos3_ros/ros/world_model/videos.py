# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions for new goals, and what the engine does for each goal."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import secrets
import threading
from typing import Any

from rclpy.node import Node

from cosmos3_ros.action import Imagine
from cosmos3_ros.droid.recipe import RECIPE as DROID
from cosmos3_ros.engine.sessions import SessionPool
from cosmos3_ros.msg import ActionChunk
from cosmos3_ros.ros.world_model import goals
from cosmos3_ros.ros.world_model.chunks import Chunks
from cosmos3_ros.ros.world_model.goals import Opened, Start
from cosmos3_ros.ros.world_model.imagination import Segment
from cosmos3_ros.ros.world_model.pictures import Pictures
from cosmos3_ros.sensing.streams import nanoseconds
from cosmos3_ros.tasks.dynamics import DynamicsRecipe, DynamicsSession
from cosmos3_ros.tasks.limits import prompt_ids
from cosmos3_ros.tasks.rollout import RolloutSession

Plan = tuple[int, Callable[[], RolloutSession | DynamicsSession]]   # bytes, and how to make it


class Videos:
    """Opens a session for a goal, and turns a goal into segments. `model`: None until loaded.

    `listener`: the node whose executor receives pictures and chunks.
    """

    def __init__(self, node: Node, listener: Node, sessions: SessionPool[Opened]):
        self.model: Any = None
        self._node = node
        self._sessions = sessions
        self._pictures = Pictures(node, listener)
        self._chunks = Chunks(node)

    def open(self, goal: Imagine.Goal, name: str) -> None:
        """Open a session. Raises ValueError or ImageError for what does not fit."""
        start = self._pictures.start(goal, self._node.get_clock().now().nanoseconds)
        seed = goal.seed if goal.seed >= 0 else secrets.randbits(31)
        plan = self._plan_dynamics if goals.is_driven(goal) else self._plan_rollout
        size, create = plan(goal, start, seed)
        self._sessions.open(name, size, lambda: Opened(create(), start))

    def segments(self, goal: Imagine.Goal, opened: Opened,
                 stopped: threading.Event) -> Iterable[Segment]:
        """Jobs of a goal, until `stopped` if it names no end. Raises ValueError."""
        session, driven = opened.session, goals.is_driven(goal)
        if driven != isinstance(session, DynamicsSession):
            raise ValueError(f'session {goal.session!r} was opened '
                             f'{"without" if driven else "with"} actions, go on in the same way')
        if driven:
            if goal.follow_policy:
                return _driven(self._chunks.follow(stopped), goal.frames, opened)
            goals.check_chunks(goal, session)   # all of them, before any work
            return _driven(goal.actions, goal.frames, opened)
        goals.check_continuation(goal, session)
        if goal.session and goal.prompt and goal.prompt != opened.newest_prompt:
            opened.steer(goal.prompt)
        if goal.frames:
            return [lambda emit: session.run(goal.frames, emit)]
        return _endless(session)

    def _plan_rollout(self, goal: Imagine.Goal, start: Start, seed: int) -> Plan:
        recipe, prompts = goals.recipe(goal), (goal.prompt, goal.negative_prompt)
        tokens = sum(len(prompt_ids(self.model.tokenizer, prompt, name))
                     for prompt, name in zip(prompts, ('prompt', 'negative_prompt')))
        return (RolloutSession.device_bytes(self.model, recipe, tokens),
                lambda: RolloutSession(self.model, *prompts, recipe, seed, start.picture))

    def _plan_dynamics(self, goal: Imagine.Goal, start: Start, seed: int) -> Plan:
        asked = {name: value for name in ('fps', 'steps', 'shift')
                 if (value := getattr(goal, name))}
        recipe = DynamicsRecipe(domain=DROID.domain, row_offset=DROID.action_offset, **asked)
        # nothing of it stays on the device between chunks
        return 0, lambda: DynamicsSession(self.model, goal.prompt, recipe, seed, start.picture)


def _driven(chunks: Iterable[ActionChunk], frames: int, opened: Opened) -> Iterator[Segment]:
    """A segment a chunk; ends when `frames` (0: no limit) have been made."""
    session = opened.session
    end = session.frames + frames
    for chunk, rows in goals.chunk_rows(chunks):
        opened.chunk_stamp = nanoseconds(chunk.header.stamp)
        yield lambda emit, rows=rows: session.run(rows, emit)
        if frames and session.frames >= end:
            return


def _endless(session: RolloutSession) -> Iterator[Segment]:
    while True:
        yield lambda emit: session.run(session.window_frames, emit)
