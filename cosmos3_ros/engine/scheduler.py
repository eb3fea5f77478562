# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Which job runs next. No threads, no clock of its own, no device: times are given in seconds.

Jobs with a deadline go first, the earliest first. The others share device time by the weights of
their tasks, and are guaranteed a part of it even when there is always an urgent job.
"""
from __future__ import annotations

import bisect
from collections import defaultdict, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
import math
from typing import Any

SHARE = 0.2             # of the device time, for jobs without a deadline while others have one
CREDIT = 0.1            # s that the others may have had in advance: 0.4 s of urgent work at a time
MOST_COUNTED = 0.5      # s of one unit; a compilation of minutes is not to be made up for
REMEMBERED = 8          # jobs whose device time is known, of each task
RELAX = 0.9             # factor on an estimate that made the scheduler refuse a job


class DeadlineExceeded(RuntimeError):
    """A job that was dropped because its result would have come too late."""


class DeadlineUnreachable(DeadlineExceeded):
    """A job that was dropped before its deadline, because it can no longer meet it."""


@dataclass(eq=False)
class Entry:
    """A job in the scheduler; `spent`: device time so far, `runnable`: since when, both in s."""

    task: str
    name: str = ''
    deadline: float = math.inf
    job: Any = None
    future: Future = field(default_factory=Future)
    number: int = 0
    spent: float = 0.0
    runnable: float = 0.0
    submitted: float = 0.0
    busy_until: float = -math.inf       # end of its newest unit that was measured
    error: Exception | None = None      # of a kernel, met after its unit

    @property
    def urgent(self) -> bool:
        return self.deadline < math.inf


class _Task:
    """Jobs of one task that have no deadline; `used`: their device time over the weight."""

    def __init__(self) -> None:
        self.weight = 1.0
        self.used = 0.0
        self.alive = 0              # jobs that wait or run
        self.waiting: deque[Entry] = deque()


class Costs:
    """Device time that jobs of one task take: the least of the newest, so never a pessimist.

    A refusal lowers it until one job is let through and measured: an estimate that is wrong, or
    was right on a busier machine, does not refuse for ever.
    """

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=REMEMBERED)
        self._relaxed = 1.0

    @property
    def estimate(self) -> float:
        """Seconds; 0 before the first job."""
        return self._relaxed * min(self._seen, default=0.0)

    def ended(self, seconds: float) -> None:
        """Learn from a job that gave its result."""
        self._seen.append(seconds)
        self._relaxed = 1.0

    def dropped(self, seconds: float) -> None:
        """Learn from a job that was dropped after so long."""
        if seconds > self.estimate:
            self.ended(seconds)
        else:
            self._relaxed *= RELAX


class Scheduler:
    """Keeps entries and says which to advance; it knows only the device time that it is told.

    `weights`: of tasks; one that is not named has weight 1. A task that was idle comes back level
    with the one that is furthest behind: it has no claim on the time in which it asked for none.
    """

    def __init__(self, weights: Mapping[str, float] | None = None):
        self._tasks: defaultdict[str, _Task] = defaultdict(_Task)
        self._costs: defaultdict[str, Costs] = defaultdict(Costs)
        self._urgent: list[Entry] = []
        self._others = 0            # entries without a deadline that wait
        self._count = 0
        self._owed = 0.0            # s that the others are owed; less than 0: were given before
        self._level = 0.0           # `used` of the task that was chosen last
        for task, weight in (weights or {}).items():
            self.set_weight(task, weight)

    def set_weight(self, task: str, weight: float) -> None:
        """Change a weight from now on. Raises ValueError."""
        if not 0 < weight < math.inf:
            raise ValueError(f'weight of {task}: found {weight}, wanted a number above 0')
        self._tasks[task].weight = weight

    @property
    def waiting(self) -> list[Entry]:
        """Entries that wait for a turn."""
        return [*self._urgent, *(e for task in self._tasks.values() for e in task.waiting)]

    @property
    def idle(self) -> bool:
        """Whether no entry waits."""
        return not (self._urgent or self._others)

    def add(self, entry: Entry) -> None:
        """Take in a new entry."""
        entry.number, self._count = self._count, self._count + 1
        if not entry.urgent:
            task = self._tasks[entry.task]
            if not task.alive:
                task.used = max(task.used, self._level)
            task.alive += 1
        self.put_back(entry)

    def put_back(self, entry: Entry) -> None:
        """Queue an entry that has more to do."""
        if entry.urgent:
            bisect.insort(self._urgent, entry, key=lambda other: (other.deadline, other.number))
        else:
            self._tasks[entry.task].waiting.append(entry)
            self._others += 1

    def next(self) -> Entry | None:
        """Take out the entry to advance, None if all wait for something else."""
        if not self._others:
            self._owed = min(self._owed, 0.0)
        if self._urgent and not (self._others and self._owed > 0):
            return self._urgent.pop(0)
        if not self._others:
            return None
        self._others -= 1
        return self._choose().waiting.popleft()

    def charge(self, entry: Entry, estimate: float) -> None:
        """Note what a unit of an entry is expected to take, until it is measured."""
        entry.spent += estimate
        self._count_time(entry, estimate)

    def correct(self, entry: Entry, estimate: float, seconds: float) -> None:
        """Replace the estimate of a unit by the device time that it took."""
        entry.spent += seconds - estimate
        self._count_time(entry, min(seconds, MOST_COUNTED) - estimate)

    def _count_time(self, entry: Entry, seconds: float) -> None:
        if not entry.urgent:
            task = self._tasks[entry.task]
            task.used += seconds / task.weight
            self._owed = max(self._owed - seconds, -CREDIT)
        elif self._others:
            self._owed += seconds * SHARE / (1 - SHARE)

    def expel(self, now: float, backlog: float = 0.0) -> list[tuple[Entry, DeadlineExceeded]]:
        """Take out the entries that cannot meet their deadline, each with the reason.

        `backlog`: device time of what is queued on the device. An entry waits for those with
        earlier deadlines; its own need is what its task's jobs took at least, less what it had.
        """
        expelled, ahead = [], backlog
        for entry in tuple(self._urgent):
            needs = max(0.0, self._costs[entry.task].estimate - entry.spent)
            error = _miss(entry, now, ahead, needs)
            if error is None:
                ahead += needs
            else:
                self._urgent.remove(entry)
                expelled.append((entry, error))
        return expelled

    def ended(self, entry: Entry, error: BaseException | None = None) -> None:
        """Forget an entry that is taken out; its device time says what the next one needs."""
        if not entry.urgent:
            self._tasks[entry.task].alive -= 1
        elif error is None:
            self._costs[entry.task].ended(entry.spent)
        elif isinstance(error, DeadlineExceeded):
            self._costs[entry.task].dropped(entry.spent)

    def _choose(self) -> _Task:
        chosen = min((task for task in self._tasks.values() if task.waiting),
                     key=lambda task: (task.used, task.waiting[0].number))
        self._level = chosen.used
        return chosen


def _miss(entry: Entry, now: float, ahead: float, needs: float) -> DeadlineExceeded | None:
    left = entry.deadline - now
    if left < 0:
        return DeadlineExceeded(f'{entry.name}: dropped, {-left * 1e3:.0f} ms past its deadline')
    if ahead + needs > left:
        what = 'dropped' if entry.spent else 'refused'
        return DeadlineUnreachable(
            f'{entry.name}: {what}, it needs {needs * 1e3:.0f} ms of the device after '
            f'{ahead * 1e3:.0f} ms of what is before it, and its deadline is in '
            f'{left * 1e3:.0f} ms; ask for less at a time, or allow more time')
    return None
