# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The report of two results side by side."""
from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
import numpy as np

from ..compare import Comparison
from .page import number, template
from .plots import BLUE, ORANGE, legend, svg

_COLUMNS = 4            # plots side by side
_PAGE = template("""
<div class="card"><h2>Second minus first, over the {{ c.pairs }} that both have</h2><table>
<tr><th>figure<th class="text">unit<th>{{ c.names[0] }}<th>{{ c.names[1] }}<th>difference
<th>95 % interval<th>{{ c.pairs }}<th class="text">the second is</tr>{% for d in c.differences %}
<tr><td>{{ d.label }}<td class="text">{{ d.unit }}<td>{{ n(d.first.mean()) }}<td>
{{ n(d.second.mean()) }}<td>{{ '%+.3g'|format(d.mean) }}<td>{{ '%+.3g'|format(d.low) }} to
{{ '%+.3g'|format(d.high) }}<td>{{ d.keys|length }}<td
class="text {{ colours.get(d.finding, 'muted') }}">{{ d.finding }}</tr>{% endfor %}</table>
<small>Bootstrap over {{ c.pairs }}{{
' in runs, since neighbours are alike' if c.pairs != 'questions' }}.</small></div>
<div class="card"><h2>Both results over the {{ c.pairs }}</h2>{% if questions %}<table>
<tr><th>question<th>exact, {{ c.names[0] }}<th>{{ c.names[1] }}<th>likeness, {{ c.names[0] }}
<th>{{ c.names[1] }}</tr>{% for row in questions %}<tr>
{% for value in row %}<td>{{ value }}{% endfor %}</tr>{% endfor %}</table>{% else %}{{ curves }}
{% endif %}</div>
<div class="card"><h2>Settings that differ</h2>{% if settings %}<table><tr><th>setting
<th class="text">{{ c.names[0] }}<th class="text">{{ c.names[1] }}</tr>{% for name, a, b in settings
%}<tr><td>{{ name }}<td class="text">{{ a }}<td class="text">{{ b }}</tr>{% endfor %}</table>
{% else %}none{% endif %}</div>""")


def write(comparison: Comparison, path: Path) -> None:
    """Write the report of `compare.compare`."""
    first, second = (_flat(result['settings']) for result in comparison.results)
    differ = [(name, first.get(name), second.get(name)) for name in {**first, **second}
              if first.get(name) != second.get(name)]
    by_question = _by_question(comparison) if comparison.pairs == 'questions' else []
    path.write_text(_PAGE.render(
        title=comparison.title, tiles=[], c=comparison, n=number, settings=differ,
        lines=[comparison.summary],
        colours={'better': 'good', 'worse': 'bad'},
        curves='' if by_question else _curves(comparison), questions=by_question),
        encoding='utf-8')


def _flat(settings: dict) -> dict:
    """Settings with the entries of maps in their place, `setup.max_skew`."""
    return {key: value for name, entry in settings.items() for key, value in (
        {f'{name}.{inner}': value for inner, value in entry.items()}
        if isinstance(entry, dict) else {name: entry}).items()}


def _curves(comparison: Comparison) -> str:
    differences = comparison.differences
    columns = min(_COLUMNS, len(differences))
    rows = -(-len(differences) // columns)
    figure = Figure((13, 1.9 * rows + 0.3), layout='constrained')
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, one in zip(axes, differences):
        places = (np.array(one.keys, np.int64) - one.keys[0]) * 1e-9
        for values, color, name in zip((one.first, one.second), (BLUE, ORANGE),
                                       comparison.names):
            axis.plot(places, values, '.-', color=color, lw=1, ms=4, label=name)
        axis.set_title(f'{one.label}{", " if one.unit else ""}{one.unit}', fontsize=9)
    for axis in axes[max(0, len(differences) - columns):len(differences)]:
        axis.set_xlabel('s', fontsize=8)
    for axis in axes[len(differences):]:
        axis.set_visible(False)
    legend(figure, axes[0])
    return svg(figure, axes)


def _by_question(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows: question, whether both answers are exact, and the likeness of both."""
    exact, fuzzy = comparison.differences
    answers = [['yes' if one else 'no' for one in values] for values in (exact.first, exact.second)]
    likeness = [[f'{one:.2f}' for one in values] for values in (fuzzy.first, fuzzy.second)]
    return list(zip(exact.keys, *answers, *likeness))
