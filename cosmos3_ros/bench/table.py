# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Results beside what others measured, in Markdown: `python -m cosmos3_ros.bench.table FILE...`.

The figures of others, with their sources, lie in peers.json beside this module.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import json
from pathlib import Path
import sys
from typing import Any

PEERS = Path(__file__).with_name('peers.json')
Figures = Mapping[str, Any]     # a row, as in the JSON files


def table(results: Sequence[Figures]) -> str:
    """Markdown of the results of one or several runs on one machine."""
    peers = json.loads(PEERS.read_text(encoding='utf-8'))
    rows = [row for result in results for row in result['rows']]
    precisions = list(dict.fromkeys(row['precision'] for row in rows))
    figures: dict[tuple[str, str], dict[str, Figures]] = {}
    for row in rows:
        figures.setdefault((row['work'], row['metric']), {})[row['precision']] = row
    systems = peers['systems']
    published = {(row['work'], row['metric']): row for row in peers['rows']}
    head = ['work', 'metric', *(f'{name} (share of floor)' for name in precisions),
            *(system['name'] for system in systems.values())]
    lines = [_line(head), _line(['---'] * len(head))]
    for key, found in figures.items():
        other = published.get(key, {})
        unit = next(iter(found.values()))['unit']
        lines.append(_line([
            f'`{key[0]}`', f'{key[1]}' + (f' [{unit}]' if unit == '%' else ''),
            *(_ours(found.get(name)) for name in precisions),
            *(_short(other.get(system)) for system in systems)]))
    return '\n'.join([_machine(results[0]['environment']), '', *lines, '', *_notes(rows, peers),
                      *_failures(results)])


def _machine(environment: Mapping[str, Any]) -> str:
    rates = ', '.join(f'{name.replace("_", " ")} {value:.3g}'
                      for name, value in environment.get('rates', {}).items())
    return (f'{environment["gpu"] or environment["device"]}, driver {environment["driver"]}, SM '
            f'clock {environment["clock_sm_mhz"]} MHz as found, PyTorch {environment["torch"]}, '
            f'CUDA {environment["cuda"]}, cuDNN {environment["cudnn"]}, Triton '
            f'{environment["triton"]}, commit {environment["commit"]}, {environment["date"]}. '
            f'Measured rates behind the floors: {rates or "none"}.')


def _ours(row: Figures | None) -> str:
    if row is None:
        return ''
    share = row['share_of_floor']
    ratio = f', {row["ratio"]:.2f} times ours' if 'ratio' in row else ''
    return _short(row['value']) + (f' ({share:.0%})' if share is not None else '') + ratio


def _notes(rows: Iterable[Figures], peers: Figures) -> list[str]:
    shapes = {row['work']: row['shape'] for row in rows}
    return [peers['note'], *(f'{system["name"]}: {system["source"]}.'
                             for system in peers['systems'].values()), '',
            *(f'- `{work}`: {shape}' for work, shape in shapes.items())]


def _failures(results: Iterable[Figures]) -> list[str]:
    return [f'- `{failed["work"]}` ({failed["precision"]}) failed: {failed["error"]}'
            for result in results for failed in result.get('failed', [])]


def _short(value: float | None) -> str:
    if value is None:
        return ''
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3g}'


def _line(cells: Sequence[str]) -> str:
    return '| ' + ' | '.join(cells) + ' |'


if __name__ == '__main__':
    if not sys.argv[1:]:
        sys.exit(f'usage: python -m {__package__}.table FILE...')
    print(table([json.loads(Path(name).read_text(encoding='utf-8')) for name in sys.argv[1:]]))
