# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Device time of each unit of work, and how much work is queued on the device.

On CUDA an event ends each unit; a unit begins where the one before it ended, or when it was
queued if the device was idle. On a CPU a unit has run when its call returns.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
import math
import time

import torch

from .scheduler import Entry

AHEAD_UNITS = 2         # units queued on the device, or
AHEAD_SECONDS = 0.005   # as many as take so long: the more of the two
FIRST_ESTIMATE = 0.005  # s for a unit of a task that was never measured
MOST_ESTIMATED = 0.1    # s; a unit that compiled something tells little of the next
NEWEST = 0.2            # part of a new measurement in a task's estimate


@dataclass(eq=False, slots=True)
class Unit:
    """What a job does from one yield to the next; times in s of the clock.

    `ready`: when the job could have gone on; `estimate`: what it was expected to take.
    """

    entry: Entry
    ready: float
    estimate: float
    begin: float
    seconds: float = math.nan
    start_event: torch.cuda.Event | None = None
    end_event: torch.cuda.Event | None = None
    error: Exception | None = None

    @property
    def end(self) -> float:
        return self.begin + self.seconds


class Timeline:
    """Units in the order of the device. Used on the engine's thread alone."""

    def __init__(self, device: torch.device, clock: Callable[[], float] = time.monotonic,
                 make_event: Callable[[], torch.cuda.Event] | None = None):
        if make_event is None and device.type == 'cuda':
            make_event = _timing_event
        self._make_event = make_event
        self._clock = clock
        self.backlog = 0.0              # s, by estimate, of what is queued on the device
        self._pending: deque[Unit] = deque()
        self._estimates: dict[str, float] = {}
        self._done: list[Unit] = []
        self._busy_until = -math.inf    # end of the newest unit that was measured

    def start(self, entry: Entry) -> Unit:
        """Begin a unit; the calls that follow belong to it."""
        estimate = self._estimates.get(entry.task, FIRST_ESTIMATE)
        unit = Unit(entry, entry.runnable, estimate, self._clock())
        if self._make_event is not None:
            if self._pending and not _is_over(self._pending[-1].end_event):
                unit.start_event = self._pending[-1].end_event
            else:
                unit.start_event = self._make_event()
                unit.start_event.record()
        return unit

    def stop(self, unit: Unit) -> None:
        """End a unit."""
        if self._make_event is None:
            self._measured(unit, self._clock() - unit.begin)
        else:
            unit.end_event = self._make_event()
            unit.end_event.record()
            self._pending.append(unit)
            self.backlog += unit.estimate

    def make_room(self) -> None:
        """Wait until another unit may be queued: what is queued cannot be overtaken."""
        while len(self._pending) >= AHEAD_UNITS and self.backlog >= AHEAD_SECONDS:
            self._retire()

    def drain(self) -> None:
        """Wait for everything that is queued."""
        while self._pending:
            self._retire()

    def take(self) -> list[Unit]:
        """Units that were measured since the last call; does not wait."""
        while self._pending and _is_over(self._pending[0].end_event):
            self._retire()
        done, self._done = self._done, []
        return done

    def _retire(self) -> None:
        unit = self._pending.popleft()
        self.backlog = self.backlog - unit.estimate if self._pending else 0.0
        try:
            unit.end_event.synchronize()
            seconds = unit.start_event.elapsed_time(unit.end_event) * 1e-3
        except Exception as error:      # noqa: B902 - of a kernel, which its call did not raise
            unit.error, seconds = error, 0.0
        self._measured(unit, seconds)

    def _measured(self, unit: Unit, seconds: float) -> None:
        unit.begin = max(unit.begin, self._busy_until)
        unit.ready = max(unit.ready, unit.entry.busy_until)
        unit.seconds = seconds
        unit.start_event = unit.end_event = None
        self._busy_until = unit.entry.busy_until = unit.end
        seen = min(seconds, MOST_ESTIMATED)
        known = self._estimates.get(unit.entry.task, seen)
        self._estimates[unit.entry.task] = known + NEWEST * (seen - known)
        self._done.append(unit)


def _timing_event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True, blocking=True)


def _is_over(event: torch.cuda.Event) -> bool:
    try:
        return event.query()
    except Exception:       # noqa: B902 - `_retire` meets it again and says whose unit it was
        return True
