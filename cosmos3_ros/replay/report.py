# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a replay as one HTML file that needs no network."""
from __future__ import annotations

import io
from pathlib import Path

import jinja2
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
import numpy as np

from cosmos3_ros.droid.recipe import STEP

from .runner import verdict

_PAGE = jinja2.Template("""<!doctype html><html lang="en"><meta charset="utf-8">
<title>Replay of {{ r.bag }}</title><link rel="icon" href="data:,"><style>
body{font:15px/1.45 system-ui,sans-serif;margin:0;background:#f4f5f7;color:#1d2330}
main{max-width:1320px;margin:0 auto;padding:20px 28px}h1{font-size:22px;margin:0 0 2px}
h2{font-size:16px;margin:0 0 8px}.card{background:#fff;border:1px solid #e1e4ea;border-radius:8px;
padding:14px 18px;margin:14px 0}.tiles{display:grid;grid-template-columns:repeat(6,1fr);gap:12px}
.tiles .card{margin:14px 0 0}.tiles b{display:block;font-size:22px}small,.muted{color:#687084}
.two{display:grid;grid-template-columns:1fr 1fr;gap:14px}.two .card{margin:0}
svg{width:100%;height:auto}table{border-collapse:collapse;width:100%}
td,th{text-align:right;padding:3px 8px;border-bottom:1px solid #edeff3}
td:first-child,th:first-child{text-align:left}
.strip{display:grid;grid-template-columns:repeat({{ strip|length }},1fr);gap:6px;
text-align:center}.strip img{width:100%;border-radius:4px}</style><main>
<h1>Replay of {{ r.bag }}</h1><div class="muted">{{ line }}</div>
<div class="muted">{{ r.settings.checkpoint or 'policy' }} · {{ r.settings.pace }} · seed
{{ r.settings.seed }} · {{ '%.1f'|format(r.duration_s) }} s recorded</div>
<div class="tiles">{% for name, value, note in tiles %}<div class="card"><small>{{ name }}</small>
<b>{{ value }}</b><small>{{ note }}</small></div>{% endfor %}</div>
<div class="card"><h2>Joints: predicted chunks on the recorded motion</h2>{{ joints|safe }}</div>
<div class="card"><h2>What the cameras saw (wrist, exterior left, exterior right)</h2>
<div class="strip">{% for time, data in strip %}<div><img alt="cameras at {{ time }} s"
src="data:image/jpeg;base64,{{ data }}"><small>{{ '%.1f'|format(time) }} s</small></div>
{% endfor %}</div>{{ marks|safe }}</div>
<div class="two"><div class="card"><h2>Error by step of the chunk</h2>{{ horizon|safe }}</div>
<div class="card"><h2>By joint</h2><table><tr><th>error, rad<th>mean<th>p95<th>max</tr>
{% for name, e in r.scores.by_joint.items() %}<tr><td>{{ name }}<td>{{ n(e.mean) }}<td>{{ n(e.p95)
}}<td>{{ n(e.max) }}</tr>{% endfor %}</table><h2 style="margin-top:14px">Refused observations</h2>
{% if r.refused.counts %}<table>{% for code, count in r.refused.counts.items() %}<tr><td>{{ code }}:
{{ r.refused.examples[code] }}<td>{{ count }}</tr>{% endfor %}</table>{% else %}none{% endif %}
</div></div></main></html>""", autoescape=True)


def write(result: dict, path: Path) -> None:
    """Write the report of a result of `runner.run`."""
    drawing, figures = result['drawing'], result['scores']
    switches = figures['gripper_switches']
    delays = switches['delays_s']
    tiles = [
        ('joint error', f'{_number(figures["joint_error"]["mean"])} rad',
         f'p95 {_number(figures["joint_error"]["p95"])}'),
        ('holding still', f'{_number(figures["hold_error"]["mean"])} rad', 'the bar to beat'),
        ('gripper agrees', f'{figures["gripper_agreement"] or 0:.0%}',
         f'switches {np.mean(delays):+.2f} s, {switches["missed"]} missed, '
         f'{switches["spurious"]} spurious' if delays else
         f'{switches["missed"]} switches missed, {switches["spurious"]} spurious'),
        ('seam jump', f'{_number(figures["seam_jump"]["mean"])} rad',
         f'overlaps differ by {_number(figures["disagreement"]["mean"])}'),
        ('jerk', f'{_number(figures["jerk"])}',
         f'rad/s³; recorded {_number(figures["recorded_jerk"])}'),
        ('latency', f'{result["timing"]["latency_s"]["mean"] * 1e3:.0f} ms',
         f'{result["timing"]["actions_per_second"]:.0f} actions/s')]
    path.write_text(_PAGE.render(
        r=result, line=verdict(result), tiles=tiles, strip=drawing['strip'], n=_number,
        joints=_joints(drawing), marks=_marks(drawing, result['duration_s']),
        horizon=_horizon(drawing)), encoding='utf-8')


def _joints(drawing: dict) -> str:
    figure = Figure((13, 5.2), layout='constrained')
    axes = figure.subplots(2, 4, sharex=True).ravel()
    start = drawing['start']
    for column, (axis, name) in enumerate(zip(axes, drawing['names'])):
        for index, (stamp, rows) in enumerate(zip(drawing['stamps'], drawing['targets'])):
            times = (stamp - start) * 1e-9 + STEP * np.arange(len(rows))
            axis.plot(times, rows[:, column], color='#e07a2f' if index % 2 else '#2f7de0', lw=0.9,
                      alpha=0.75, label='predicted' if not index else None)
        axis.plot((drawing['times'] - start) * 1e-9, drawing['recorded'][:, column],
                  color='#1d2330', lw=1.6, label='recorded')
        axis.set_title(f'{name}{", 1 closed" if column == 7 else ", rad"}', fontsize=9)
    axes[0].legend(fontsize=8)
    return _svg(figure, axes)


def _horizon(drawing: dict) -> str:
    figure = Figure((6.5, 3.6), layout='constrained')
    axis = figure.subplots()
    for errors, color, name in ((drawing['errors'], '#2f7de0', 'predicted'),
                                (drawing['holds'], '#687084', 'holding still')):
        known = ~np.isnan(errors).all(axis=(0, 2))
        steps = np.flatnonzero(known)
        axis.plot(steps, np.nanmean(errors[:, known], axis=(0, 2)), color=color, label=name)
        if name == 'predicted':
            axis.fill_between(steps, 0, np.nanpercentile(errors[:, known], 95, axis=(0, 2)),
                              color=color, alpha=0.12, label='95 % within')
    axis.set_xlabel('step of the chunk (1/15 s)')
    axis.set_ylabel('rad, all joints')
    axis.legend(fontsize=8)
    return _svg(figure, [axis])


def _marks(drawing: dict, duration: float) -> str:
    figure = Figure((13, 0.6), layout='constrained')
    axis = figure.subplots()
    axis.vlines((drawing['stamps'] - drawing['start']) * 1e-9, 0, 1, color='#2f7de0', lw=1)
    axis.set(xlim=(0, duration), yticks=[], xlabel='s; a mark for each chunk')
    return _svg(figure, [axis])


def _svg(figure: Figure, axes) -> str:
    for axis in axes:
        axis.spines[['top', 'right']].set_visible(False)
        axis.tick_params(labelsize=8)
    FigureCanvasSVG(figure)
    stream = io.StringIO()
    figure.savefig(stream, format='svg', metadata={'Date': None})
    text = stream.getvalue()
    return text[text.index('<svg'):]


def _number(value: float | None) -> str:
    return '-' if value is None else f'{value:.3g}'
