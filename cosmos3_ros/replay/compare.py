# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Two results of the same bag side by side, chunk by chunk."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np

FIGURES = {'joint_error': 'rad, less is better', 'gripper_agreement': 'share, more is better'}
DRAWS = 2000            # bootstrap samples of an interval
FORMAT = 'cosmos3-replay/1'


def compare(first: Path, second: Path) -> str:
    """A table of second minus first: mean paired difference and its 95 % interval.

    Chunks are paired by the stamp of their observation. Raises ValueError for files that are no
    results, or of different bags.
    """
    a, b = _read(first), _read(second)
    if a['bag'] != b['bag']:
        raise ValueError(f'compare: {first} is of bag {a["bag"]} and {second} of {b["bag"]}, '
                         'wanted two results of one bag')
    lines = [f'{second.name} minus {first.name}, bag {a["bag"]}']
    for name, unit in FIGURES.items():
        differences = paired(a['chunks'], b['chunks'], name)
        if not len(differences):
            raise ValueError(f'compare: {first} and {second} have no observation in common; '
                             'replay both at the same pace')
        low, high = interval(differences)
        sure = 'differ' if low > 0 or high < 0 else 'no clear difference'
        lines.append(f'{name:18} {differences.mean():+.4f} [{low:+.4f}, {high:+.4f}] {unit}: '
                     f'{sure} ({len(differences)} chunks)')
    return '\n'.join(lines)


def paired(first: list[dict], second: list[dict], name: str) -> np.ndarray:
    """Second minus first of a figure, for the observations that both have and score."""
    before = {chunk['stamp']: chunk[name] for chunk in first if chunk[name] is not None}
    return np.array([chunk[name] - before[chunk['stamp']] for chunk in second
                     if chunk[name] is not None and chunk['stamp'] in before])


def interval(differences: np.ndarray) -> tuple[float, float]:
    """95 % bootstrap interval of the mean.

    Chunks of one episode overlap and depend on each other, so that it is rather too narrow.
    """
    draws = np.random.default_rng(0).choice(differences, (DRAWS, len(differences)))
    low, high = np.percentile(draws.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def _read(path: Path) -> dict:
    try:
        result = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise ValueError(f'compare: {path} cannot be read: {error}') from error
    found = result.get('format') if isinstance(result, dict) else None
    if found != FORMAT:
        raise ValueError(f'compare: {path} has format {found!r}, wanted {FORMAT}, as '
                         'cosmos3 replay --json writes it')
    return result
