# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs and units as a file that ui.perfetto.dev and chrome://tracing show.

The Trace Event Format: a track for each task with its units, and above it its jobs.
"""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

from .scheduler import Entry
from .timeline import Unit

NEWEST = 200_000        # events that are kept: ten minutes or more; written in a second


@dataclass(frozen=True, slots=True)
class _Event:
    """A unit, or a job if it has an `outcome`; times in s."""

    task: str
    name: str
    begin: float
    seconds: float
    job: int = -1
    outcome: str = ''


class Trace:
    """Collects events on the engine's thread; `write` may be called once that has ended."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque(maxlen=NEWEST)

    def unit(self, unit: Unit) -> None:
        """Note a unit that was measured."""
        entry = unit.entry
        self._events.append(_Event(entry.task, entry.name, unit.begin, unit.seconds))

    def job(self, entry: Entry, now: float, outcome: str) -> None:
        """Note a job that has ended."""
        self._events.append(_Event(entry.task, entry.name, entry.submitted,
                                   now - entry.submitted, entry.number, outcome))

    def write(self, path: Path) -> None:
        """Write the newest events, as JSON."""
        threads = {task: i for i, task in enumerate(sorted({e.task for e in self._events}))}
        events: list[dict[str, Any]] = [
            {'ph': 'M', 'pid': 1, 'name': 'process_name', 'args': {'name': 'engine'}}]
        events += [{'ph': 'M', 'pid': 1, 'tid': tid, 'name': 'thread_name', 'args': {'name': task}}
                   for task, tid in threads.items()]
        for noted in self._events:
            event = {'pid': 1, 'tid': threads[noted.task], 'cat': noted.task, 'name': noted.name,
                     'ts': noted.begin * 1e6}
            if noted.outcome:
                event |= {'id': noted.job, 'args': {'outcome': noted.outcome}}
                events.append(event | {'ph': 'b'})
                events.append(event | {'ph': 'e', 'ts': (noted.begin + noted.seconds) * 1e6})
            else:
                events.append(event | {'ph': 'X', 'dur': noted.seconds * 1e6})
        path.write_text(json.dumps({'traceEvents': events}), encoding='utf-8')
