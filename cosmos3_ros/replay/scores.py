# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""How far chunks are from the recorded motion. Angles in rad, times in s; NaN where unrecorded."""
from __future__ import annotations

import numpy as np

from cosmos3_ros.control.gripper import hysteresis

SWITCH_WINDOW = 1.0     # s; a predicted switch further away is none of the recorded one


def spread(values: np.ndarray, axis=None) -> dict:
    """Mean, 95th percentile and maximum over an axis, NaN left out; None where nothing is left."""
    def plain(figures):
        return np.where(np.isnan(figures), None, np.round(figures, 9)).tolist()
    values = np.asarray(values, np.float64)
    if not values.size or np.isnan(values).all():
        return {'mean': None, 'p95': None, 'max': None}
    with np.errstate(all='ignore'):
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', RuntimeWarning)     # columns without a value
            return {'mean': plain(np.nanmean(values, axis)),
                    'p95': plain(np.nanpercentile(values, 95, axis)),
                    'max': plain(np.nanmax(values, axis))}


def joint_errors(predicted: np.ndarray, recorded: np.ndarray) -> np.ndarray:
    """|predicted - recorded| of the arm: [c, h, 8] twice -> [c, h, 7], rad."""
    return np.abs(predicted - recorded)[..., :7]


def gripper_agreement(predicted: np.ndarray, recorded: np.ndarray) -> float | None:
    """Share of rows decided (open or closed, hysteresis 0.35 and 0.65) as the recording's.

    [c, h] fractions twice, 0 open to 1 closed; each chunk starts from the recorded decision.
    """
    same = []
    for row, truth in zip(predicted, recorded):
        known = ~np.isnan(truth)
        if known.any():
            start = bool(truth[known][0] > 0.5)
            same.extend(hysteresis(row[known], start) == hysteresis(truth[known], start))
    return float(np.mean(same)) if same else None


def executed(stamps: np.ndarray, ready: np.ndarray, targets: np.ndarray,
             step: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that a robot would follow: times [n] (ns) and targets [n, 8].

    Row i of a chunk is due at stamp + i * step; it counts from the time that its chunk is there
    until the next chunk is.
    """
    times, rows = [], []
    for index, (stamp, chunk) in enumerate(zip(stamps, targets)):
        due = stamp + step * np.arange(len(chunk))
        until = ready[index + 1] if index + 1 < len(ready) else np.inf
        kept = (due >= ready[index]) & (due < until)
        times.append(due[kept])
        rows.append(chunk[kept])
    return np.concatenate(times), np.concatenate(rows)


def switch_timing(times: np.ndarray, predicted: np.ndarray, recorded: np.ndarray) -> dict:
    """Predicted minus recorded time (s) of each gripper switch; missed and spurious ones.

    times [n] (ns) and fractions [n]. A switch belongs to the nearest free predicted one of its
    direction within SWITCH_WINDOW.
    """
    known = ~np.isnan(recorded)
    times, predicted, recorded = times[known], predicted[known], recorded[known]
    start = bool(len(recorded) and recorded[0] > 0.5)
    free, delays, missed = _switches(times, hysteresis(predicted, start), start), [], 0
    for time, closing in _switches(times, hysteresis(recorded, start), start):
        near = [one for one in free if one[1] == closing
                and abs(one[0] - time) <= SWITCH_WINDOW * 1e9]
        if not near:
            missed += 1
            continue
        best = min(near, key=lambda one: abs(one[0] - time))
        free.remove(best)
        delays.append(float(best[0] - time) * 1e-9)
    return {'delays_s': delays, 'missed': missed, 'spurious': len(free)}


def seam_jumps(stamps: np.ndarray, ready: np.ndarray, targets: np.ndarray,
               step: int) -> np.ndarray:
    """|new - old| arm target at the time that a chunk takes over: [c - 1, 7], rad.

    Between rows in straight lines; the last row of an old chunk is held.
    """
    jumps = [np.abs(_at(targets[i + 1], stamps[i + 1], ready[i + 1], step)
                    - _at(targets[i], stamps[i], ready[i + 1], step))[:7]
             for i in range(len(stamps) - 1)]
    return np.array(jumps).reshape(-1, 7)


def disagreement(stamps: np.ndarray, targets: np.ndarray, step: int) -> np.ndarray:
    """Mean |new - old| arm target (rad) where a chunk and the one before overlap: [c - 1].

    At the new chunk's row times; NaN where they do not overlap.
    """
    result = []
    for old, new, before, chunk in zip(stamps, stamps[1:], targets, targets[1:]):
        due = new + step * np.arange(len(chunk))
        both = due <= old + step * (len(before) - 1)
        differences = [np.abs(row - _at(before, old, time, step))[:7]
                       for row, time in zip(chunk[both], due[both])]
        result.append(float(np.mean(differences)) if differences else np.nan)
    return np.array(result)


def jerk(targets: np.ndarray, step: float) -> float | None:
    """Root mean square of the arm's third difference over step^3 within chunks, rad/s^3."""
    third = np.diff(targets[..., :7], 3, axis=1) / step ** 3
    return None if np.isnan(third).all() else float(np.sqrt(np.nanmean(third ** 2)))


def _at(chunk: np.ndarray, stamp: int, time: int, step: int) -> np.ndarray:
    place = np.clip((time - stamp) / step, 0, len(chunk) - 1)
    low = min(int(place), len(chunk) - 2)
    return chunk[low] + (place - low) * (chunk[low + 1] - chunk[low])


def _switches(times: np.ndarray, closed: np.ndarray, start: bool) -> list[tuple[int, bool]]:
    before = np.concatenate([[start], closed[:-1]]) if len(closed) else closed
    return [(int(time), bool(now)) for time, now, was in zip(times, closed, before) if now != was]
