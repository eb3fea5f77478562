# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The last check of a chunk before it can move a robot."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Limits:
    """What the arm's joints may do: `lower`, `upper` [n] in rad, `max_velocity` [n] in rad/s."""

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    max_velocity: np.ndarray


# Franka Emika, Franka Control Interface documentation, "Limits for Panda", joint space.
FRANKA = Limits(
    names=tuple(f'panda_joint{index}' for index in range(1, 8)),
    lower=np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973]),
    upper=np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973]),
    max_velocity=np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61]))


class GateError(ValueError):
    """A chunk that must not reach a robot; `row` and `joint` say where it fails."""

    def __init__(self, message: str, row: int | None = None, joint: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.joint = joint


@dataclass(frozen=True)
class Checked:
    """`positions`: float64 [h, n] that may be executed.

    `excess`: by joint, the largest angle (rad) by which a row was moved; empty if none was.
    """

    positions: np.ndarray
    excess: dict[str, float]


def check_finite(rows: np.ndarray, names: Sequence[str]) -> None:
    """Raise GateError for NaN or infinity in rows [h, n], naming row and column.

    Comes before any clamp, which would turn NaN into an end stop.
    """
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = (int(index) for index in bad[0])
        raise GateError(
            f'row {row}, column {column} ({names[column]}): found {rows[row, column]}, wanted a '
            f'finite target ({len(bad)} values are not): drop the chunk and check the checkpoint '
            'and its dtype', row, names[column])


class Gate:
    """Checks chunks of joint targets, in this order, and refuses or limits what is too much.

    1. Finite: always refused. 2. Position limits. 3. Row 0 within `first_jump` (rad) of the state
    that the request held. 4. Rows within `step_jump` (rad) of each other. 5. The row due now
    within `first_jump` of the present state.

    `on_excess`: 'refuse' raises GateError and is meant for robots with trained weights. 'limit'
    clips to the position limits and lets the rows from the due one on follow by at most
    `step_jump` each, starting from the present state, so that an arm can move on any finite chunk.
    Defaults: 0.20 rad in a row of 1/15 s is 3 rad/s, which no Franka joint reaches; 0.25 rad is
    more than a tracking arm lags behind its command.
    """

    def __init__(self, limits: Limits, step_jump: float = 0.20, first_jump: float = 0.25,
                 on_excess: Literal['refuse', 'limit'] = 'refuse') -> None:
        if on_excess not in ('refuse', 'limit'):
            raise ValueError(f"on_excess: found {on_excess!r}, wanted 'refuse' or 'limit'")
        self.limits = limits
        self.step_jump = step_jump
        self.first_jump = first_jump
        self.on_excess = on_excess

    def check(self, positions: np.ndarray, state: np.ndarray, present: np.ndarray,
              due: int = 0) -> Checked:
        """Check a chunk: `positions` [h, n], `state` and `present` [n], rad.

        `due`: index of the row to be executed next. Raises GateError.
        """
        positions = np.array(positions, dtype=np.float64)
        self._check_shape(positions, due)
        check_finite(positions, self.limits.names)
        self._check_measured('state in the request', state)
        self._check_measured('present state', present)
        if self.on_excess == 'limit':
            return self._limit(positions, np.asarray(present), due)
        self._refuse_beyond_limits(positions)
        self._refuse_jump(positions[:1] - state, 0, self.first_jump,
                          'away from the state in the request')
        self._refuse_jump(np.diff(positions, axis=0), 1, self.step_jump,
                          'away from the row before')
        self._refuse_jump(positions[due:due + 1] - present, due, self.first_jump,
                          'away from the present state')
        return Checked(positions, {})

    def _check_shape(self, positions: np.ndarray, due: int) -> None:
        width = len(self.limits.names)
        if positions.ndim != 2 or positions.shape[1] != width:
            raise GateError(f'chunk: found shape {list(positions.shape)}, wanted [h, {width}] for '
                            f'{", ".join(self.limits.names)}')
        if not 0 <= due < len(positions):
            raise GateError(f'chunk: row {due} is due and there are {len(positions)} rows: '
                            'the reply is too old, drop it')

    def _check_measured(self, what: str, values: np.ndarray) -> None:
        if np.shape(values) != (len(self.limits.names),):
            raise GateError(f'{what}: found shape {list(np.shape(values))}, wanted '
                            f'[{len(self.limits.names)}]')
        for column in np.flatnonzero(~np.isfinite(values)):
            joint = self.limits.names[column]
            raise GateError(f'{what}, {joint}: found {values[column]}, wanted a finite angle: '
                            'check the joint state source', None, joint)

    def _refuse_beyond_limits(self, positions: np.ndarray) -> None:
        outside = np.argwhere((positions < self.limits.lower) | (positions > self.limits.upper))
        if len(outside):
            row, column = (int(index) for index in outside[0])
            joint, value = self.limits.names[column], positions[row, column]
            raise GateError(
                f'row {row}, {joint}: found {value:.4f} rad, wanted '
                f'{self.limits.lower[column]:.4f} to {self.limits.upper[column]:.4f}: drop the '
                'chunk, check joint order and units', row, joint)

    def _refuse_jump(self, jumps: np.ndarray, first_row: int, limit: float, whence: str) -> None:
        """`jumps` [k, n]: those of rows `first_row` and on."""
        excess = np.argwhere(np.abs(jumps) > limit)
        if len(excess):
            index, column = (int(value) for value in excess[0])
            row, joint = first_row + index, self.limits.names[column]
            raise GateError(
                f'row {row}, {joint}: found {jumps[index, column]:+.4f} rad {whence}, wanted at '
                f'most {limit:.4f}: drop the chunk and observe again', row, joint)

    def _limit(self, positions: np.ndarray, present: np.ndarray, due: int) -> Checked:
        limited = np.clip(positions, self.limits.lower, self.limits.upper)
        previous = present
        for row in limited[due:]:
            row[:] = np.clip(row, previous - self.step_jump, previous + self.step_jump)
            previous = row
        excess = np.abs(positions - limited).max(axis=0)
        return Checked(limited, {joint: float(value) for joint, value
                                 in zip(self.limits.names, excess) if value > 0})
