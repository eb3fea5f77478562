# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Successive chunks as trajectories that a joint_trajectory_controller follows without a stop."""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .gate import Limits, check_finite
from .spline import Spline, seam_velocity, secant_bounds

ROUNDING = 1e-6  # s; a double holds the seconds since 1970 to 2.4e-7


class SpliceError(ValueError):
    """A chunk that comes too late, out of order, or for nothing."""


@dataclass(frozen=True)
class Trajectory:
    """Arrays of one message: `times` [k] s, rising; `positions` rad, `velocities` rad/s [k, n]."""

    times: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray


class Largest(NamedTuple):
    """The joint that has the largest of some quantity, and how much."""

    joint: str
    value: float


@dataclass(frozen=True)
class Seam:
    """How well a new chunk continues the old plan, largest over the joints.

    `position` (rad): first row against the old plan at that time. `velocity` (rad/s): the same of
    the velocities. `acceleration` (rad/s^2): of the way from now to the first point. `limited`
    (rad): by how much any row was held back to keep the velocity limits.
    """

    position: Largest
    velocity: Largest
    acceleration: Largest
    limited: Largest


@dataclass(frozen=True)
class Splice:
    """`trajectory`: its times count from the chunk's stamp. `rows`: the chunk's rows in it."""

    trajectory: Trajectory
    rows: range
    seam: Seam


class TrajectorySplicer:
    """Turns chunks, each seen at its stamp, into one trajectory each that replaces the one before.

    Row i of a chunk is due at stamp + i * step. Time that the arm stood still between the stamp
    and the start of motion does not count: the world of the observation is still there. So a chunk
    that starts the arm from rest starts with row 0, due `lead` from now, and a second one that was
    observed before the arm moved is shifted as much; a late reply in motion skips rows.

    Rows due before now + `lead` are skipped and rows due after stamp + `max_chunk_age` are cut. The
    last point has no velocity, so that without a new chunk the controller stops there and holds.
    Velocities keep the limits everywhere on the cubic between the points, not only at the points;
    rows that ask for more are followed as fast as that allows.

    Defaults, in s. `lead` 0.05: time for the message to reach the controller, and for a small jump
    at the seam to be taken gently. `max_reply_age` 0.5: beyond it a quarter of the rows is past
    before any is executed. `max_chunk_age` 1.8: leaves out the last 4 of 32 rows at 15 Hz, those
    predicted from furthest away. `give_up_age` 2.4: the arm has held for 0.6 s by then, so the
    source of chunks has failed. `stop_time` 0.25: from 1.5 rad/s this takes 6 rad/s^2, less than
    the 7.5 that the weakest Franka joint allows.
    """

    def __init__(self, limits: Limits, *, lead: float = 0.05, max_reply_age: float = 0.5,
                 max_chunk_age: float = 1.8, give_up_age: float = 2.4,
                 stop_time: float = 0.25) -> None:
        self.limits = limits
        self.lead = lead
        self.max_reply_age = max_reply_age
        self.max_chunk_age = max_chunk_age
        self.give_up_age = give_up_age
        self.stop_time = stop_time
        self.reset()

    def reset(self, since: float = -np.inf) -> None:
        """Forget the plan: on a new instruction, when disarmed, when time jumps.

        Observations from before `since` (s) are refused from here on. The controller still follows
        what it has: publish `hold` unless it is stopped otherwise.
        """
        self._since = since
        self._stamp: float | None = None
        self._plan: Spline | None = None
        self._rest_since = self._moving_since = -np.inf

    def expired(self, now: float) -> bool:
        """Whether the plan is so old that control must be given up."""
        return self._stamp is not None and now - self._stamp > self.give_up_age

    def first_row(self, stamp: float, step: float, now: float) -> int:
        """Index of the row with which a chunk would start if it were spliced now."""
        wait = now + self.lead - stamp - self._shift(stamp, now)
        return max(0, int(np.ceil((wait - ROUNDING) / step)))

    def splice(self, stamp: float, step: float, rows: np.ndarray, now: float,
               present: np.ndarray) -> Splice:
        """Continue with a chunk: rows [h, n] rad, seen at `stamp` (s), `step` s apart.

        `present` [n] rad: measured now; where motion starts if there is no plan. Raises SpliceError
        for a chunk that cannot be used, GateError if a value is not finite; the plan then stays.
        """
        check_finite(rows, self.limits.names)
        self._check_age(stamp, step, now)
        shift = self._shift(stamp, now)
        used = self._usable(stamp, step, len(rows), now, shift)
        times = shift + step * np.arange(used.start, used.stop)
        old = self._plan or Spline.rest(now, present)
        new, seam = self._join(old, now, stamp + times, step, rows[used.start:used.stop])
        if self._resting(now):
            self._rest_since = old.end if self._plan else -np.inf
            self._moving_since = now + self.lead
        self._stamp, self._plan = stamp, new
        return Splice(Trajectory(times, new.positions[1:], new.velocities[1:]), used, seam)

    def hold(self, positions: np.ndarray, velocities: np.ndarray) -> Trajectory:
        """A stop on the spot, and a reset: one point, `stop_time` from now, at rest.

        `positions` rad, `velocities` rad/s [n]: measured. Constant deceleration from v for T s
        covers v T / 2.
        """
        self.reset(self._since)
        target = np.asarray(positions) + 0.5 * self.stop_time * np.asarray(velocities)
        target = np.clip(target, self.limits.lower, self.limits.upper)
        return Trajectory(np.array([self.stop_time]), target[None], np.zeros((1, len(target))))

    def _resting(self, now: float) -> bool:
        return self._plan is None or now >= self._plan.end

    def _shift(self, stamp: float, now: float) -> float:
        """Seconds that the arm stood still between the stamp and the start of motion."""
        if self._resting(now):
            since, until = self._plan.end if self._plan else -np.inf, now + self.lead
        else:
            since, until = self._rest_since, self._moving_since
        return max(0.0, until - max(stamp, since))

    def _check_age(self, stamp: float, step: float, now: float) -> None:
        age = now - stamp
        if age > self.max_reply_age:
            raise SpliceError(f'reply is {age * 1e3:.0f} ms old, wanted at most '
                              f'{self.max_reply_age * 1e3:.0f}: dropped, observe again')
        if age < -step:
            raise SpliceError(f'observation lies {-age * 1e3:.0f} ms in the future: put cameras '
                              'and node on one clock')
        if stamp < self._since:
            raise SpliceError(f'observation is {(self._since - stamp) * 1e3:.0f} ms older than '
                              'the last reset: dropped, observe again')
        if self._stamp is not None and stamp <= self._stamp:
            raise SpliceError(f'observation is not newer than the plan, which was seen '
                              f'{(self._stamp - stamp) * 1e3:.0f} ms later: dropped')

    def _usable(self, stamp: float, step: float, horizon: int, now: float, shift: float) -> range:
        first = self.first_row(stamp, step, now)
        last = int(np.floor((self.max_chunk_age - shift + ROUNDING) / step))
        used = range(first, min(last + 1, horizon))
        if not used:
            raise SpliceError(f'none of {horizon} rows is due between {self.lead * 1e3:.0f} ms '
                              f'from now and {self.max_chunk_age:.1f} s after the observation: '
                              'dropped, observe again')
        return used

    def _join(self, old: Spline, now: float, due: np.ndarray, step: float,
              rows: np.ndarray) -> tuple[Spline, Seam]:
        """A spline from the old plan's point at `now` through the rows, and how it fits."""
        position, velocity = old.at(now)
        positions = self._follow(position, velocity, due[0] - now, step, rows)
        velocities = np.zeros_like(positions)
        velocities[1:-1] = (positions[2:] - positions[:-2]) / (2 * step)
        if len(rows) > 1:
            velocities[0] = seam_velocity(
                old.at(due[0] - step)[0], (position, velocity), positions, velocities[1],
                (due[0] - now, step), self.limits.max_velocity)
        new = Spline(np.concatenate([[now], due]), np.vstack([position, positions]),
                     np.vstack([velocity, velocities]))
        expected_position, expected_velocity = old.at(due[0])
        return new, Seam(
            self._largest(rows[:1] - expected_position),
            self._largest(velocities[:1] - expected_velocity),
            self._largest(new.accelerations(0)),
            self._largest(rows - positions))

    def _follow(self, position: np.ndarray, velocity: np.ndarray, wait: float, step: float,
                rows: np.ndarray) -> np.ndarray:
        """Rows, held back where the cubic through them would pass the velocity limits."""
        low, high = secant_bounds(velocity, np.zeros_like(velocity), self.limits.max_velocity)
        fastest = self.limits.max_velocity * 2 / 3
        low, high = np.maximum(low, -fastest), np.minimum(high, fastest)
        followed = np.empty(rows.shape)
        for index, row in enumerate(rows):
            position = np.clip(row, position + wait * low, position + wait * high)
            followed[index] = position
            wait, low, high = step, -fastest, fastest
        return followed

    def _largest(self, values: np.ndarray) -> Largest:
        """`values` [k, n]."""
        sizes = np.abs(values).max(axis=0)
        joint = int(sizes.argmax())
        return Largest(self.limits.names[joint], float(sizes[joint]))
