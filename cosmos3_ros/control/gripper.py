# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Gripper commands: open or closed, never between, in the gripper joint's own units."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .gate import check_finite


@dataclass(frozen=True)
class GripperRange:
    """Where the gripper joint is open and closed, in its own units (rad or m), either way round.

    The default is the Robotiq 2F-85's `finger_joint`. Raises ValueError if both are the same.
    """

    open_position: float = 0.0
    closed_position: float = 0.8

    def __post_init__(self) -> None:
        travel = self.closed_position - self.open_position
        if travel == 0 or not np.isfinite(travel):
            raise ValueError(f'gripper range: open at {self.open_position}, closed at '
                             f'{self.closed_position}; wanted two different positions')

    def to_fraction(self, position: float | np.ndarray) -> float | np.ndarray:
        """Joint position -> 0 open to 1 closed; beyond the stops it passes 0 and 1."""
        return (position - self.open_position) / (self.closed_position - self.open_position)

    def to_position(self, fraction: float | np.ndarray) -> float | np.ndarray:
        """0 open to 1 closed -> joint position."""
        return self.open_position + fraction * (self.closed_position - self.open_position)


def hysteresis(fractions: np.ndarray, closed: bool, open_below: float = 0.35,
               close_above: float = 0.65) -> np.ndarray:
    """Decide each of fractions [h]: bool [h], True closed.

    Between the thresholds the decision before stands; before row 0 it was `closed`.
    """
    decisions = np.empty(len(fractions), bool)
    for index, fraction in enumerate(fractions):
        closed = fraction > close_above or (closed and fraction >= open_below)
        decisions[index] = closed
    return decisions


class GripperSplicer:
    """Turns the gripper column of successive chunks into trajectories of steps.

    Remembers what was commanded when, because a new chunk replaces the old one's tail: the
    decision in force at the seam is the one last due, not the old chunk's last. The command
    counts, not the measured position: a gripper closed on an object stands half open.
    """

    # A trajectory controller interpolates between points, so a change is held until this long
    # (s) before it is due. One period of a 1 kHz controller.
    EDGE = 0.001

    def __init__(self, gripper_range: GripperRange, closed: bool = False) -> None:
        self.range = gripper_range
        self.reset(closed)

    def reset(self, closed: bool) -> None:
        """Forget the plan; `closed` is the command in force, or the measured state at start."""
        self._initial = closed
        self._due = np.empty(0)
        self._decisions = np.empty(0, bool)

    def closed_at(self, time: float) -> bool:
        """The command in force at a time (s)."""
        passed = int(np.searchsorted(self._due, time, side='right'))
        return bool(self._decisions[passed - 1]) if passed else self._initial

    def splice(self, stamp: float, times: np.ndarray, fractions: np.ndarray,
               now: float) -> tuple[np.ndarray, np.ndarray]:
        """Plan the rows of a chunk: times [k] (s from `stamp`), fractions [k], 0 open 1 closed.

        Returns times (s from `stamp`, rising, all after `now`) and joint positions of the points;
        each position is the open or the closed one. Raises GateError if a value is not finite.
        """
        check_finite(fractions[:, None], ['gripper'])
        in_force = self.closed_at(now)
        decisions = hysteresis(fractions, in_force)
        points: list[tuple[float, bool]] = []
        before, earliest = in_force, now - stamp
        for time, decision in zip(times, decisions):
            if decision != before and time - self.EDGE > earliest:
                points.append((time - self.EDGE, before))
            points.append((time, decision))
            before, earliest = decision, time
        self._initial, self._due, self._decisions = in_force, stamp + times, decisions
        return (np.array([time for time, _ in points]),
                self.range.to_position(np.array([float(closed) for _, closed in points])))
