# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What an Imagine goal asks for, in the terms of the tasks. No rclpy."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from cosmos3_ros.droid.actions import state_row
from cosmos3_ros.model.positions import TEMPORAL_COMPRESSION
from cosmos3_ros.tasks.dynamics import DynamicsSession
from cosmos3_ros.tasks.rollout import RolloutRecipe, RolloutSession

BASE = RolloutRecipe()
SIZE_OF_ONE_PICTURE = 640       # pixels a side: the recipe of a single picture
SHIFT_OF_ONE_PICTURE = 3.0


@dataclass(frozen=True)
class Start:
    """Frame 0 of a video: uint8 [H, W, 3] RGB or None, where it is from and when it was taken."""

    picture: np.ndarray | None
    frame_id: str       # of a camera; empty for another source
    name: str
    stamp: int          # ns, node clock


@dataclass
class Opened:
    """A session of the pool, with what its video started from and what drives it now."""

    session: RolloutSession | DynamicsSession
    start: Start
    chunk_stamp: int | None = None      # ns, header stamp of the chunk in force
    prompts: list[tuple[int, str]] = field(init=False)      # first window, prompt

    def __post_init__(self) -> None:
        self.prompts = [(0, self.session.prompt)]

    def steer(self, prompt: str) -> int:
        """Change the prompt at the next window; its number. ValueError for a driven video."""
        if not prompt.strip():
            raise ValueError('prompt is empty: say what should happen')
        if isinstance(self.session, DynamicsSession):
            raise ValueError('the session is driven by actions, not by its prompt')
        window = self.session.steer(prompt)
        self.prompts.append((window, prompt))
        return window

    @property
    def newest_prompt(self) -> str:
        """The prompt in force, or the one that comes into force with a later window."""
        return self.prompts[-1][1]

    def prompt(self, window: int) -> str:
        """Prompt in force in a window."""
        return [prompt for first, prompt in self.prompts if first <= window][-1]


def is_driven(goal) -> bool:
    """Whether actions drive the video of a goal."""
    return bool(goal.actions or goal.follow_policy)


def check_continuation(goal, session: RolloutSession) -> None:
    """Raise ValueError for a clip that has no end or is to go on: it is made at once."""
    if session.recipe.mode == 'clip' and (session.frames or not goal.frames):
        raise ValueError('mode clip makes all frames at once: ask for a number of frames in a new '
                         'session, or use kv or chained')


def check_chunks(goal, session: DynamicsSession) -> None:
    """Raise ValueError for chunks that do not fit, or none of which ends at the frames wanted."""
    added = [session.span(rows) - 1 for _, rows in chunk_rows(goal.actions)]
    ends = [*accumulate(added, initial=0 if session.frames else 1)][1:]
    if goal.frames and goal.frames not in ends:
        raise ValueError(f'frames is {goal.frames}, wanted a number at which a chunk ends (the '
                         f'first at {ends[0]}, the last at {ends[-1]}), or 0 for all of them')


def recipe(goal) -> RolloutRecipe:
    """Recipe of a goal; a field that is 0, -1 or empty takes the recipe's default.

    The window of a clip is the whole of it. Raises ValueError for values that do not fit.
    """
    asked = {name: getattr(goal, name) for name in ('width', 'height', 'window', 'steps',
                                                    'guidance', 'shift', 'fps')}
    chosen = {name: value for name, value in asked.items() if value}
    chosen |= {name: getattr(goal, name) for name in ('overlap', 'history', 'anchor')
               if getattr(goal, name) >= 0}
    base = BASE
    if goal.frames == 1 and not goal.session:       # one picture, no video
        base = replace(BASE, mode='clip', width=SIZE_OF_ONE_PICTURE, height=SIZE_OF_ONE_PICTURE,
                       shift=SHIFT_OF_ONE_PICTURE)
    if goal.mode:
        chosen['mode'] = goal.mode
    if chosen.get('mode', base.mode) == 'clip' and goal.frames:
        chosen['window'] = (goal.frames - 1) // TEMPORAL_COMPRESSION + 1
    return replace(base, **chosen)


def action_rows(positions: np.ndarray, state: np.ndarray | None) -> np.ndarray:
    """Rows that drive a video: the state, then the targets of a chunk [h, 8] (gripper 1 closed).

    `state`: row before the chunk, as targets [8]; None takes the chunk's own first row, which is
    the command at the observation itself. Raises ValueError for another width, or no rows.
    """
    if positions.ndim != 2 or not len(positions) or positions.shape[1] != 8:
        raise ValueError(f'action chunk: found shape {list(positions.shape)}, wanted [h, 8]: '
                         'seven joints and the gripper')
    first = positions[0] if state is None else state
    rows = [state_row(row[:7], float(row[7])) for row in (first, *positions)]
    return np.stack(rows).astype(np.float32)


def chunk_positions(chunk) -> np.ndarray:
    """Targets of an ActionChunk as [h, n]. Raises ValueError if its sizes do not fit."""
    width, values = len(chunk.names), np.array(chunk.positions, dtype=np.float64)
    if not width or len(values) != chunk.horizon * width:
        raise ValueError(f'action chunk: {len(values)} positions for horizon {chunk.horizon} and '
                         f'{width} names, wanted {chunk.horizon * width}')
    return values.reshape(chunk.horizon, width)


def chunk_rows(chunks: Iterable) -> Iterator[tuple[Any, np.ndarray]]:
    """Each ActionChunk with its rows, which start where those of the one before ended."""
    last = None
    for chunk in chunks:
        positions = chunk_positions(chunk)
        yield chunk, action_rows(positions, last)
        last = positions[-1]
