# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Cubic Hermite splines, as a joint_trajectory_controller follows them, and their velocities."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spline:
    """A plan: `times` [k] s, rising; `positions` rad and `velocities` rad/s [k, n].

    Before the first time it stands at the first position, after the last at the last.
    """

    times: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray

    @classmethod
    def rest(cls, time: float, positions: np.ndarray) -> Spline:
        """Standing still."""
        positions = np.array(positions, dtype=np.float64)[None]
        return cls(np.array([time]), positions, np.zeros_like(positions))

    @property
    def end(self) -> float:
        return float(self.times[-1])

    def at(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Position and velocity [n] at a time."""
        if time >= self.times[-1] or time < self.times[0]:
            end = -1 if time >= self.times[-1] else 0
            return self.positions[end], np.zeros_like(self.positions[end])
        index = int(np.searchsorted(self.times, time, side='right')) - 1
        span = self.times[index + 1] - self.times[index]
        u = (time - self.times[index]) / span
        secant, v0, v1 = self._segment(index)
        velocity = 6 * u * (1 - u) * secant + (1 - u) * (1 - 3 * u) * v0 + u * (3 * u - 2) * v1
        moved = u * u * (3 - 2 * u) * secant + u * (1 - u) ** 2 * v0 - u * u * (1 - u) * v1
        return self.positions[index] + span * moved, velocity

    def accelerations(self, index: int) -> np.ndarray:
        """Accelerations [2, n] rad/s^2 at both ends of a segment; between them they are linear."""
        secant, v0, v1 = self._segment(index)
        span = self.times[index + 1] - self.times[index]
        return np.stack([6 * secant - 4 * v0 - 2 * v1, 2 * v0 + 4 * v1 - 6 * secant]) / span

    def _segment(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        span = self.times[index + 1] - self.times[index]
        secant = (self.positions[index + 1] - self.positions[index]) / span
        return secant, self.velocities[index], self.velocities[index + 1]


def secant_bounds(v0: np.ndarray, v1: np.ndarray,
                  limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest mean velocity of a cubic segment that peaks within +-limit.

    `v0`, `v1`: velocities at its ends. The velocity of the segment is quadratic in time; setting
    its extremum to the limit and solving for the mean gives
    (limit + v0 + v1 + sqrt((limit - v0) (limit - v1))) / 3, which is 2/3 limit from rest to rest.
    """
    v0, v1 = np.clip(v0, -limit, limit), np.clip(v1, -limit, limit)
    low = -(limit - v0 - v1 + np.sqrt((limit + v0) * (limit + v1))) / 3
    high = (limit + v0 + v1 + np.sqrt((limit - v0) * (limit - v1))) / 3
    return low, high


def seam_velocity(before: np.ndarray, start: tuple[np.ndarray, np.ndarray],
                  positions: np.ndarray, next_velocity: np.ndarray,
                  spans: tuple[float, float], limit: np.ndarray) -> np.ndarray:
    """Velocity [n] at a new chunk's first point.

    The central difference between the old plan one step earlier, `before`, and the second of
    `positions`. Where that would drive a neighbouring segment past the limit, zero or the nearest
    velocity that overshoots neither (Fritsch and Carlson 1980). `start`: position and velocity
    now. `spans`: s from now to the first point and from there to the second.
    """
    position, velocity = start
    central = (positions[1] - before) / (2 * spans[1])
    into, out = (positions[0] - position) / spans[0], (positions[1] - positions[0]) / spans[1]
    smaller = np.where(into * out > 0, 3 * np.minimum(np.abs(into), np.abs(out)), 0)
    smaller = np.minimum(smaller, limit * 2 / 3)
    monotone = np.sign(out) * np.clip(np.sign(out) * central, 0, smaller)
    low_in, high_in = secant_bounds(velocity, central, limit)
    low_out, high_out = secant_bounds(central, next_velocity, limit)
    fits = ((np.abs(central) <= limit) & (low_in <= into) & (into <= high_in)
            & (low_out <= out) & (out <= high_out))
    return np.where(fits, central, monotone)
