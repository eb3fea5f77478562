# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What every measurement says of itself: the machine, the rows, a table and a file."""
from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
import json
from pathlib import Path
import platform
import statistics
import time
from typing import Any

import torch


@dataclass(frozen=True)
class Row:
    """One figure: the median of `runs`, each in `unit`; `shape` says of what."""

    work: str
    shape: str
    precision: str
    metric: str
    unit: str
    runs: tuple[float, ...]

    @property
    def value(self) -> float:
        return statistics.median(self.runs)


def environment(device: torch.device) -> dict[str, Any]:
    """Machine and versions."""
    found = {'cosmos3_ros': version('cosmos3_ros'), 'torch': torch.__version__,
             'python': platform.python_version(), 'device': str(device)}
    if device.type == 'cuda':
        found |= {'gpu': torch.cuda.get_device_name(device), 'cuda': torch.version.cuda,
                  'cudnn': torch.backends.cudnn.version()}
    return found


def write(rows: Sequence[Row], device: torch.device, path: Path | None) -> None:
    """Print a table and, if `path` is given, write {environment, rows} as JSON."""
    print(f'{"work":16} {"metric":18} {"median":>10} {"min":>10} {"max":>10}  unit')
    for row in rows:
        print(f'{row.work:16} {row.metric:18} {row.value:10.3f} {min(row.runs):10.3f} '
              f'{max(row.runs):10.3f}  {row.unit} ({row.shape}, {row.precision})')
    if path is not None:
        values = [asdict(row) | {'value': row.value} for row in rows]
        path.write_text(json.dumps({'environment': environment(device), 'rows': values},
                                   indent=2) + '\n', encoding='utf-8')


class Clock:
    """Times sections with the device idle at each border."""

    def __init__(self, device: torch.device):
        self._device = device
        self._synchronize: Callable[[], Any] = (
            (lambda: torch.cuda.synchronize(device)) if device.type == 'cuda' else lambda: None)
        self.lap()

    def lap(self) -> float:
        """Seconds since the last border."""
        self._synchronize()
        now = time.perf_counter()
        elapsed = now - getattr(self, '_last', now)
        self._last = now
        return elapsed

    def drain(self, job: Generator[None, None, Any]) -> tuple[list[float], Any]:
        """Advance a job to its end: seconds of each step, and its result."""
        steps: list[float] = []
        self.lap()
        while True:
            try:
                next(job)
            except StopIteration as stop:
                return [*steps, self.lap()], stop.value
            steps.append(self.lap())
