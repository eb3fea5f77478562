# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Follows joint trajectories by the rules of ros2_control's joint_trajectory_controller."""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


class TrajectoryError(ValueError):
    """A trajectory that cannot be followed; the running one goes on."""


@dataclass(frozen=True)
class Point:
    """One knot: seconds after the trajectory's start, rad and (all points or none) rad/s."""

    time: float
    positions: Sequence[float]
    velocities: Sequence[float] = ()


class TrajectoryFollower:
    """Set points of some joints over time; holds before the first and after the last knot."""

    def __init__(self, joint_names: Sequence[str], positions: Sequence[float]):
        self.joint_names = tuple(joint_names)
        self._times = np.zeros(1)
        self._positions = np.array([positions], dtype=np.float64)
        self._velocities = np.zeros_like(self._positions)  # NaN rows: none given, line segments

    def accept(self, joint_names: Sequence[str], points: Sequence[Point],
               start: float | None, now: float) -> None:
        """Follow `points` from now on; `start` is the header's stamp (s), None means now.

        Points in the past are dropped. The running trajectory is followed up to max(now, start)
        and joins the first point left. Joints may come in any order.
        Raises TrajectoryError, and then changes nothing.
        """
        order = self._order(joint_names)
        times, positions, velocities = _arrays(points, len(order), joint_names)
        start = now if start is None else start
        join = max(now, start)
        left = start + times >= join
        if not left.any():
            raise TrajectoryError(f'all {len(times)} points are past: the last was due '
                                  f'{now - start - times[-1]:.3f} s ago; send newer points, or '
                                  'compare the clocks of sender and controller')
        self._splice(join, now, start + times[left], positions[left][:, order],
                     velocities[left][:, order])

    def sample(self, time: float) -> np.ndarray:
        """Return the joint positions due at `time` (s): float64 [joints], rad."""
        return self._evaluate(time)[0]

    def _order(self, names: Sequence[str]) -> list[int]:
        unknown = [name for name in names if name not in self.joint_names]
        missing = [name for name in self.joint_names if name not in names]
        if unknown or missing or len(names) != len(self.joint_names):
            raise TrajectoryError(
                f'joint names {list(names)}: unknown {unknown}, missing {missing}; '
                f'wanted each of {list(self.joint_names)} once')
        return [list(names).index(name) for name in self.joint_names]

    def _splice(self, join: float, now: float, times: np.ndarray, positions: np.ndarray,
                velocities: np.ndarray) -> None:
        first = max(np.searchsorted(self._times, now, side='right') - 1, 0)
        kept = slice(first, np.searchsorted(self._times, join, side='left'))
        heads = [(self._times[kept], self._positions[kept], self._velocities[kept])]
        if times[0] > join:
            position, velocity = self._evaluate(join)
            heads.append((np.array([join]), position[None], velocity[None]))
        parts = zip(*heads, (times, positions, velocities))
        self._times, self._positions, self._velocities = (np.concatenate(part) for part in parts)

    def _evaluate(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        times, still = self._times, np.zeros(len(self.joint_names))
        if time < times[0]:
            return self._positions[0], still
        if time >= times[-1]:
            return self._positions[-1], still
        i = np.searchsorted(times, time, side='right') - 1
        span = times[i + 1] - times[i]
        s = (time - times[i]) / span
        a, b = self._positions[i:i + 2]
        va, vb = self._velocities[i:i + 2] * span
        if np.isnan(va).any() or np.isnan(vb).any():
            return a + (b - a) * s, (b - a) / span
        return _hermite(a, va, b, vb, s), _hermite_slope(a, va, b, vb, s) / span


def _arrays(points: Sequence[Point], joints: int, names: Sequence[str]):
    """Return times [n], positions and velocities [n, joints], checked."""
    if not points:
        raise TrajectoryError('the trajectory has no points: wanted at least one')
    with_velocities = len(points[0].velocities) > 0
    for i, point in enumerate(points):
        _check_width(f'point {i} positions', point.positions, joints)
        _check_width(f'point {i} velocities', point.velocities, joints if with_velocities else 0)
    times = np.array([point.time for point in points], dtype=np.float64)
    positions = np.array([point.positions for point in points], dtype=np.float64)
    _check_finite('positions', positions, names)
    velocities = np.full_like(positions, np.nan)
    if with_velocities:
        velocities = np.array([point.velocities for point in points], dtype=np.float64)
        _check_finite('velocities', velocities, names)
    _check_times(times)
    return times, positions, velocities


def _check_width(what: str, values: Sequence[float], wanted: int) -> None:
    if len(values) != wanted:
        raise TrajectoryError(f'{what}: {len(values)} values, wanted {wanted} '
                              '(one a joint; velocities in all points or in none)')


def _check_finite(what: str, values: np.ndarray, names: Sequence[str]) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        point, joint = bad[0]
        raise TrajectoryError(f'{what} of point {point}, {names[joint]}: '
                              f'{values[point, joint]}, wanted a finite number')


def _check_times(times: np.ndarray) -> None:
    if not np.isfinite(times).all() or times[0] < 0 or (np.diff(times) <= 0).any():
        raise TrajectoryError(f'time_from_start {times.tolist()}: wanted 0 or more, '
                              'rising from point to point')


def _hermite(a, va, b, vb, s: float):
    """Cubic from a to b over s = 0..1 with end slopes va, vb."""
    return ((1 + 2 * s) * (1 - s) ** 2 * a + s * (1 - s) ** 2 * va
            + s * s * (3 - 2 * s) * b + s * s * (s - 1) * vb)


def _hermite_slope(a, va, b, vb, s: float):
    return (6 * s * (1 - s) * (b - a) + (1 - s) * (1 - 3 * s) * va + s * (3 * s - 2) * vb)
