# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The report of two results side by side."""
from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
import numpy as np

from ..compare import Comparison
from .page import number, template
from .plots import BLUE, ORANGE, svg

_COLUMNS = 4            # plots side by side
_PAGE = template("""
<div class="card"><h2>Second minus first, over the {{ c.pairs }} that both have</h2><table>
<tr><th>figure<th class="text">unit<th>{{ c.names[0] }}<th>{{ c.names[1] }}<th>difference
<th>95 % interval<th>{{ c.pairs }}<th class="text">the second is</tr>{% for d in c.differences %}
<tr><td>{{ d.label }}<td class="text">{{ d.unit }}<td>{{ n(d.first.mean()) }}<td>
{{ n(d.second.mean()) }}<td>{{ '%+.3g'|format(d.mean) }}<td>{{ '%+.3g'|format(d.low) }} to
{{ '%+.3g'|format(d.high) }}<td>{{ d.keys|length }}<td
class="text {{ colours.get(d.finding, 'muted') }}">{{ d.finding }}</tr>{% endfor %}</table>
<small>Bootstrap over pairs; those of one
episode depend on each other, so that intervals are rather too narrow.</small></div>
<div class="card"><h2>Both results over the {{ c.pairs }}</h2>{{ curves }}</div>
<div class="card"><h2>Settings that differ</h2>{% if settings %}<table><tr><th>setting
<th class="text">{{ c.names[0] }}<th class="text">{{ c.names[1] }}</tr>{% for name, a, b in settings
%}<tr><td>{{ name }}<td class="text">{{ a }}<td class="text">{{ b }}</tr>{% endfor %}</table>
{% else %}none{% endif %}</div>""")


def write(comparison: Comparison, path: Path) -> None:
    """Write the report of `compare.compare`."""
    first, second = (result['settings'] for result in comparison.results)
    differ = [(name, first.get(name), second.get(name)) for name in {**first, **second}
              if first.get(name) != second.get(name)]
    path.write_text(_PAGE.render(
        title=comparison.title, tiles=[], c=comparison, n=number, settings=differ,
        lines=[comparison.summary],
        colours={'better': 'good', 'worse': 'bad'},
        curves=_curves(comparison)), encoding='utf-8')


def _curves(comparison: Comparison) -> str:
    differences = comparison.differences
    rows = -(-len(differences) // _COLUMNS)
    figure = Figure((13, 1.9 * rows + 0.3), layout='constrained')
    axes = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for axis, one in zip(axes, differences):
        places = _places(one.keys)
        for values, color, name in zip((one.first, one.second), (BLUE, ORANGE),
                                       comparison.names):
            axis.plot(places, values, '.-', color=color, lw=1, ms=4, label=name)
        axis.set_title(f'{one.label}{", " if one.unit else ""}{one.unit}', fontsize=9)
    for axis in axes[max(0, len(differences) - _COLUMNS):len(differences)]:
        axis.set_xlabel('question' if comparison.pairs == 'questions' else 's', fontsize=8)
    for axis in axes[len(differences):]:
        axis.set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc='outside upper right', ncols=2,
                  fontsize=8, frameon=False)
    return svg(figure, axes)


def _places(keys: list) -> np.ndarray:
    """Seconds since the first stamp, or numbers of questions."""
    if isinstance(keys[0], str):
        return 1 + np.arange(len(keys))
    return (np.array(keys, np.int64) - keys[0]) * 1e-9
