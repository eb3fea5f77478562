# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine counts, by task."""
from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
import math

import numpy as np

from .scheduler import DeadlineExceeded, DeadlineUnreachable
from .timeline import Unit

NEWEST_WAITS = 1000     # waits that percentiles are taken over


@dataclass(frozen=True)
class TaskFigures:
    """Figures of one task since the engine began; times in s.

    `wait_p50`, `wait_p99`: from runnable to running, of the newest units; NaN before the first.
    `missed`: dropped after their deadline; `refused`: before it, as it was out of reach.
    `too_long`: units longer than the engine's `max_unit`.
    """

    device_time: float = 0.0
    units: int = 0
    wait_p50: float = math.nan
    wait_p99: float = math.nan
    longest_unit: float = 0.0
    too_long: int = 0
    queued: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    missed: int = 0
    refused: int = 0


@dataclass(frozen=True)
class Snapshot:
    """Figures of all tasks that ever had a job, at `time` (s of `time.monotonic`)."""

    time: float
    tasks: Mapping[str, TaskFigures]

    def since(self, before: Snapshot | None) -> dict[str, float]:
        """Part of the time since an earlier snapshot that the device worked for each task."""
        span = self.time - before.time if before else math.inf
        return {name: (figures.device_time - _device_time(before, name)) / span if span else 0.0
                for name, figures in self.tasks.items()}


def _device_time(snapshot: Snapshot | None, task: str) -> float:
    return snapshot.tasks[task].device_time if snapshot and task in snapshot.tasks else 0.0


@dataclass
class Counts:
    """Counts of one task as they grow."""

    totals: defaultdict[str, float] = field(default_factory=lambda: defaultdict(int))
    waits: deque[float] = field(default_factory=lambda: deque(maxlen=NEWEST_WAITS))

    def unit(self, unit: Unit, limit: float) -> None:
        """Count a unit that was measured; `limit`: length in s from which it is too long."""
        totals, seconds = self.totals, unit.seconds
        totals['device_time'] += seconds
        totals['units'] += 1
        totals['too_long'] += seconds > limit
        totals['longest_unit'] = max(totals['longest_unit'], seconds)
        self.waits.append(max(0.0, unit.begin - unit.ready))

    def end(self, cancelled: bool, error: BaseException | None) -> None:
        """Count a job that has ended."""
        if cancelled:
            outcome = 'cancelled'
        elif error is None:
            outcome = 'finished'
        elif isinstance(error, DeadlineUnreachable):
            outcome = 'refused'
        else:
            outcome = 'missed' if isinstance(error, DeadlineExceeded) else 'failed'
        self.totals[outcome] += 1

    def copy(self) -> Counts:
        return Counts(self.totals.copy(), self.waits.copy())

    def figures(self, queued: int) -> TaskFigures:
        """As they are now."""
        p50, p99 = (np.percentile(self.waits, (50, 99)) if self.waits
                    else (math.nan, math.nan))
        return TaskFigures(**self.totals, wait_p50=float(p50), wait_p99=float(p99), queued=queued)
