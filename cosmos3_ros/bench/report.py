# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The figures of a measurement: a row each, as a table and as a file."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import json
from pathlib import Path
import statistics
from typing import Any

import torch

from .environment import environment


@dataclass(frozen=True)
class Row:
    """One figure: the median of `runs`, each in `unit`.

    `shape` says of what. `floor`: what the machine's measured rates allow for this work, in the
    same unit; None where that makes no sense. `ratio`: of a peer's row, how many times ours it is.
    """

    work: str
    shape: str
    precision: str
    metric: str
    unit: str
    runs: tuple[float, ...]
    floor: float | None = None
    ratio: float | None = None

    @property
    def value(self) -> float:
        return statistics.median(self.runs)

    @property
    def share_of_floor(self) -> float | None:
        """1 where nothing faster is possible on this machine, less elsewhere."""
        if self.floor is None:
            return None
        rate = '_per_s' in self.metric
        return self.value / self.floor if rate else self.floor / self.value

    def values(self) -> dict[str, Any]:
        """For JSON; `ratio` is there only where there is a peer."""
        found = {'work': self.work, 'precision': self.precision, 'metric': self.metric,
                 'value': self.value, 'unit': self.unit, 'floor': self.floor,
                 'share_of_floor': self.share_of_floor, 'runs': list(self.runs),
                 'shape': self.shape}
        return found if self.ratio is None else found | {'ratio': self.ratio}


HEADER = (f'{"work":26} {"prec.":5} {"metric":20} {"median":>9} {"min":>9} {"max":>9} {"":4} '
          f'{"floor":>9} {"share":>6}  shape')


def line(row: Row) -> str:
    """A row of the table for people."""
    floor, share = ('', '') if row.floor is None else (_short(row.floor),
                                                       f'{row.share_of_floor:.0%}')
    ratio = '' if row.ratio is None else f'{row.ratio:.2f} times ours; '
    return (f'{row.work:26} {row.precision:5} {row.metric:20} {_short(row.value):>9} '
            f'{_short(min(row.runs)):>9} {_short(max(row.runs)):>9} {row.unit:4} {floor:>9} '
            f'{share:>6}  {ratio}{row.shape}')


def _short(value: float) -> str:
    return f'{value:.0f}' if abs(value) >= 1000 else f'{value:.4g}'


def write(rows: Sequence[Row], device: torch.device, path: Path | None) -> None:
    """Print a table and, if `path` is given, write it with the environment."""
    print('\n'.join([HEADER, *map(line, rows)]))
    if path is not None:
        save(path, environment(device), rows, [])


def save(path: Path, environment: Mapping[str, Any], rows: Sequence[Row],
         failed: Sequence[Mapping[str, str]]) -> None:
    """Write {environment, rows, failed}; `failed`: {work, precision, error} each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({'environment': environment, 'rows': [row.values() for row in rows],
                       'failed': list(failed)}, indent=1)
    path.write_text(text + '\n', encoding='utf-8')
