# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The report of a policy's chunks against the recorded motion."""
from __future__ import annotations

from matplotlib.figure import Figure
import numpy as np

from cosmos3_ros.droid.recipe import STEP

from ..runner import verdict
from .page import number, template
from .plots import BLUE, GREY, INK, ORANGE, legend, svg

_PAGE = template("""
<div class="card"><h2>Joints: predicted chunks on the recorded motion</h2>{{ joints }}</div>
<div class="card"><h2>{{ 'What the cameras saw (wrist, exterior left, exterior right)' if strip
else 'When chunks were asked for' }}</h2>
<div class="strip" style="grid-template-columns:repeat({{ strip|length }},1fr)">
{% for time, data in strip %}<div>{{ m.picture(data, 'cameras') }}
<small>{{ '%.1f'|format(time) }} s</small></div>{% endfor %}</div>{{ marks }}</div>
<div class="two"><div class="card"><h2>Error by step of the chunk</h2>{{ horizon }}</div>
<div class="card"><h2>By joint</h2><table><tr><th>error, rad<th>mean<th>p95<th>max</tr>
{% for name, e in r.scores.by_joint.items() %}<tr><td>{{ name }}<td>{{ n(e.mean) }}<td>{{ n(e.p95)
}}<td>{{ n(e.max) }}</tr>{% endfor %}</table><h2 style="margin-top:14px">Refused observations</h2>
{% if r.refused.counts %}<table>{% for code, count in r.refused.counts.items() %}<tr><td>{{ code }}:
{{ r.refused.examples[code] }}<td>{{ count }}</tr>{% endfor %}</table>{% else %}none{% endif %}
</div></div>""")


def render(result: dict) -> str:
    """HTML of a result of `runner.run`."""
    drawing, settings = result['drawing'], result['settings']
    lines = [verdict(result), f'{settings.get("checkpoint", "policy")} · {settings["pace"]} · seed '
             f'{settings["seed"]} · {result["duration_s"]:.1f} s recorded']
    return _PAGE.render(
        title=f'Replay of {result["bag"]}', lines=lines, tiles=_tiles(result), r=result, n=number,
        strip=drawing['strip'], joints=_joints(drawing),
        marks=_marks(drawing, result['duration_s']), horizon=_horizon(drawing))


def _tiles(result: dict) -> list[tuple[str, str, str]]:
    figures, timing = result['scores'], result['timing']
    switches = figures['gripper_switches']
    delays = switches['delays_s']
    return [
        ('joint error', f'{number(figures["joint_error"]["mean"])} rad',
         f'p95 {number(figures["joint_error"]["p95"])}'),
        ('holding still', f'{number(figures["hold_error"]["mean"])} rad', 'the bar to beat'),
        ('gripper agrees', f'{figures["gripper_agreement"] or 0:.0%}',
         f'switches {np.mean(delays):+.2f} s, {switches["missed"]} missed, '
         f'{switches["spurious"]} spurious' if delays else
         f'{switches["missed"]} switches missed, {switches["spurious"]} spurious'),
        ('seam jump', f'{number(figures["seam_jump"]["mean"])} rad',
         f'overlaps differ by {number(figures["disagreement"]["mean"])}'),
        ('jerk', number(figures['jerk']), f'rad/s³; recorded {number(figures["recorded_jerk"])}'),
        ('latency', f'{timing["latency_s"]["mean"] * 1e3:.0f} ms',
         f'{timing["actions_per_second"]:.0f} actions/s')]


def _joints(drawing: dict) -> str:
    figure = Figure((13, 5.2), layout='constrained')
    axes = figure.subplots(2, 4, sharex=True).ravel()
    start = drawing['start']
    for column, (axis, name) in enumerate(zip(axes, drawing['names'])):
        for index, (stamp, rows) in enumerate(zip(drawing['stamps'], drawing['targets'])):
            times = (stamp - start) * 1e-9 + STEP * np.arange(len(rows))
            axis.plot(times, rows[:, column], color=ORANGE if index % 2 else BLUE, lw=0.9,
                      alpha=0.75, label=('predicted', 'predicted, next')[index]
                      if index < 2 else None)
        axis.plot((drawing['times'] - start) * 1e-9, drawing['recorded'][:, column],
                  color=INK, lw=1.6, label='recorded')
        axis.set_title(f'{name}{", 1 closed" if column == 7 else ", rad"}', fontsize=9)
    for axis in axes[4:]:
        axis.set_xlabel('s', fontsize=8)
    legend(figure, axes[0])
    return svg(figure, axes)


def _horizon(drawing: dict) -> str:
    figure = Figure((6.5, 3.6), layout='constrained')
    axis = figure.subplots()
    for errors, color, name in ((drawing['errors'], BLUE, 'predicted'),
                                (drawing['holds'], GREY, 'holding still')):
        known = ~np.isnan(errors).all(axis=(0, 2))
        steps = np.flatnonzero(known)
        axis.plot(steps, np.nanmean(errors[:, known], axis=(0, 2)), color=color, label=name)
        if name == 'predicted':
            axis.fill_between(steps, 0, np.nanpercentile(errors[:, known], 95, axis=(0, 2)),
                              color=color, alpha=0.12, label='95 % within')
    axis.set_xlabel('step of the chunk (1/15 s)')
    axis.set_ylabel('rad, all joints')
    axis.set_ylim(0)
    legend(figure, axis)
    return svg(figure, [axis])


def _marks(drawing: dict, duration: float) -> str:
    figure = Figure((13, 0.6), layout='constrained')
    axis = figure.subplots()
    axis.vlines((drawing['stamps'] - drawing['start']) * 1e-9, 0, 1, color=BLUE, lw=1)
    axis.set(xlim=(0, duration), yticks=[])
    axis.set_xlabel('s; a mark for each chunk', fontsize=8)
    return svg(figure, [axis])
