# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Two results of the same bag side by side, pair by pair."""
from __future__ import annotations

from dataclasses import dataclass
import json
import math
from pathlib import Path

import numpy as np

from .pairs import KINDS, Rows

DRAWS = 2000            # bootstrap samples of an interval
FEWEST = 6              # pairs; fewer have one sign by chance more often than in 5 % of cases


@dataclass(frozen=True)
class Difference:
    """A figure of both results over their pairs: `keys`, `first` and `second` are [n].

    `better`: 1 where more is better, -1 where less is, 0 for neither; `low` and `high`: the 95 %
    interval of the mean of second minus first.
    """

    label: str
    unit: str
    better: int
    keys: list
    first: np.ndarray
    second: np.ndarray
    low: float
    high: float

    @property
    def mean(self) -> float:
        """Of second minus first."""
        return float(np.mean(self.second - self.first))

    @property
    def finding(self) -> str:
        """What may be said of the second result."""
        if len(self.keys) < FEWEST:
            return 'too few pairs'
        if self.low <= 0 <= self.high:
            return 'no clear difference'
        if not self.better:
            return 'differs'
        return 'better' if (self.mean > 0) == (self.better > 0) else 'worse'


@dataclass(frozen=True)
class Comparison:
    """Two results, their names, and all figures that both have.

    `pairs`: what these are called; `alone`: how many only the first and only the second has.
    """

    names: tuple[str, str]
    results: tuple[dict, dict]
    pairs: str
    alone: tuple[int, int]
    differences: list[Difference]

    @property
    def title(self) -> str:
        return f'{self.names[1]} against {self.names[0]}, bag {self.results[0]["bag"]}'

    @property
    def summary(self) -> str:
        found = [one.finding for one in self.differences]
        return (f'better in {found.count("better")} of {len(found)} figures, worse in '
                f'{found.count("worse")}; {self.pairs} that only the first has: {self.alone[0]}, '
                f'only the second: {self.alone[1]}')


def compare(first: Path, second: Path) -> Comparison:
    """Mean paired differences with their intervals.

    Chunks and frames are paired by their stamp, answers by their question. Raises ValueError for
    files that are no results, or not of the same kind, bag or pictures.
    """
    a, b = _read(first), _read(second)
    kind = KINDS[a['format']]
    _check_same(first, second, 'format', a['format'], b['format'])
    _check_same(first, second, 'bag', a['bag'], b['bag'])
    for name in kind.same:
        _check_same(first, second, name, a['settings'][name], b['settings'][name])
    before, after, found = kind.rows(a), kind.rows(b), []
    common = [key for key in before if key in after]
    if not common:
        raise ValueError(f'compare: {first} and {second} have none of their {kind.pairs} in '
                         'common: replay both from the same bag, with the same --execute or '
                         '--questions')
    for name, (label, unit, better) in kind.figures(a).items():
        keys, one, other = paired(before, after, name)
        if keys:
            block = math.ceil(len(keys) ** (1 / 3)) if kind.series else 1
            found.append(Difference(label, unit, better, keys, one, other,
                                    *interval(other - one, block)))
    alone = len(before) - len(common), len(after) - len(common)
    return Comparison(_names(first, second), (a, b), kind.pairs, alone, found)


def table(comparison: Comparison) -> str:
    """The comparison for a terminal, a line a figure."""
    lines = [comparison.title + ': second minus first, 95 % interval', comparison.summary]
    for one in comparison.differences:
        figures = f'{one.mean:+.4g} [{one.low:+.4g}, {one.high:+.4g}] {one.unit}'.rstrip()
        lines.append(f'{one.label:20} {figures}: {one.finding} '
                     f'({len(one.keys)} {comparison.pairs})')
    return '\n'.join(lines)


def paired(first: Rows, second: Rows, name: str) -> tuple[list, np.ndarray, np.ndarray]:
    """Keys that both have with a value of a figure, and both values [n]."""
    keys = [key for key, row in first.items()
            if row.get(name) is not None and second.get(key, {}).get(name) is not None]
    return (keys, np.array([first[key][name] for key in keys], float),
            np.array([second[key][name] for key in keys], float))


def interval(differences: np.ndarray, block: int) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of a series [n].

    Draws runs of `block` neighbours, the last followed by the first (circular block bootstrap,
    Politis and Romano 1992), since what is near in time is alike; 1 takes them as independent.
    """
    count = len(differences)
    starts = np.random.default_rng(0).integers(count, size=(DRAWS, -(-count // block), 1))
    places = (starts + np.arange(block)).reshape(DRAWS, -1)[:, :count] % count
    draws = differences[places]
    low, high = np.percentile(draws.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def _names(first: Path, second: Path) -> tuple[str, str]:
    """File names, or the whole paths where these are equal."""
    return (first.name, second.name) if first.name != second.name else (str(first), str(second))


def _check_same(first: Path, second: Path, what: str, one: str, other: str) -> None:
    if one != other:
        raise ValueError(f'compare: {first} is of {what} {one} and {second} of {other}, wanted '
                         f'two results of one {what}')


def _read(path: Path) -> dict:
    try:
        result = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise ValueError(f'compare: {path} cannot be read: {error}') from error
    found = result.get('format') if isinstance(result, dict) else None
    if found not in KINDS:
        raise ValueError(f'compare: {path} has format {found!r}, wanted one of '
                         f'{", ".join(KINDS)}, as cosmos3 replay --json writes them: replay again')
    return result
