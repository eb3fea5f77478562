# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The report of imagined frames against recorded ones."""
from __future__ import annotations

from matplotlib.figure import Figure
import numpy as np

from ..world import verdict
from .page import number, settings_line, template
from .plots import BLUE, GREY, legend, mark_borders, svg

_PAGE = template("""
<div class="card"><h2>Imagined above, recorded below</h2>
<div class="strip" style="grid-template-columns:repeat({{ pairs|length }},1fr)">
{% for p in pairs %}<div{% if p.border %} class="border"{% endif %}>
{{ m.picture(p.imagined, 'imagined') }}{{ m.picture(p.recorded, 'recorded') }}
<small>frame {{ p.index }} · {{ '%.2f'|format(p.time) }} s · window {{ p.window + 1 }}<br>
PSNR {{ '%.1f'|format(p.psnr) }} dB, frozen {{ '%.1f'|format(p.frozen) }}</small></div>
{% endfor %}</div>{% if borders %}<small>A dashed line: a window began between the two frames
({% for b in borders %}{{ ', ' if not loop.first }}{{ b }}{% endfor %}).</small>{% endif %}</div>
<div class="card"><h2>By frame of the horizon</h2>{{ curves }}</div>
{{ m.settings(settings) }}""")


def render(result: dict) -> str:
    """HTML of a result of `world.run`."""
    settings, figures = result['settings'], result['scores']
    windows = np.array(result['frames']['windows'])
    stamps = np.array(result['frames']['stamps'], np.int64)
    borders = (np.flatnonzero(np.diff(windows)) + 1).tolist()
    shown = [index for index, _, _ in result['drawing']['pairs']]
    pairs = [{'index': index, 'imagined': imagined, 'recorded': recorded,
              'time': (stamps[index] - stamps[0]) * 1e-9, 'window': windows[index],
              'border': windows[index] != windows[before],
              'psnr': figures['psnr'][index], 'frozen': figures['frozen_psnr'][index]}
             for before, (index, imagined, recorded) in zip([0, *shown],
                                                            result['drawing']['pairs'])]
    lines = [verdict(result), settings_line(settings, ['checkpoint', 'camera', 'led_by', 'seed'])]
    flat = {name: value for name, value in settings.items() if name != 'recipe'}
    return _PAGE.render(
        title=f'Imagined beside recorded: {result["bag"]}', lines=lines, tiles=_tiles(result),
        pairs=pairs, borders=borders, curves=_curves(figures, borders),
        settings=flat | settings['recipe'])


def _tiles(result: dict) -> list[tuple[str, str, str]]:
    figures = result['scores']
    psnr, frozen = np.array(figures['psnr'][1:]), np.array(figures['frozen_psnr'][1:])
    windows = result['frames']['windows'][-1] + 1
    return [
        ('PSNR, mean', f'{psnr.mean():.1f} dB', f'last frame {psnr[-1]:.1f}'),
        ('frozen picture, mean', f'{frozen.mean():.1f} dB',
         f'the bar to beat; beaten in {np.mean(psnr > frozen):.0%} of frames'),
        ('SSIM, mean', f'{np.mean(figures["ssim"][1:]):.2f}',
         f'last frame {figures["ssim"][-1]:.2f}'),
        ('colour drift, mean', f'{np.mean(figures["drift"][1:]):.1f}',
         f'of 255; last frame {figures["drift"][-1]:.1f}'),
        ('seam', number(figures['seam']), 'change at window borders over that elsewhere'
         if figures['seam'] is not None else 'no border between windows'),
        ('speed', f'{result["timing"]["frames_per_second"]:.1f} frames/s',
         f'{len(psnr) + 1} frames in {windows} window{"s" if windows > 1 else ""}')]


def _curves(figures: dict, borders: list[int]) -> str:
    """PSNR, SSIM and drift by frame, without the given one."""
    figure = Figure((13, 3.2), layout='constrained')
    axes = figure.subplots(1, 3)
    for axis, name, label in zip(axes, ('psnr', 'ssim', 'drift'),
                                 ('PSNR, dB', 'SSIM', 'colour drift, of 255')):
        index = np.arange(1, len(figures[name]))
        axis.plot(index, figures[name][1:], color=BLUE, label='imagined')
        if name == 'psnr':
            axis.plot(index, figures['frozen_psnr'][1:], color=GREY, label='frozen picture')
        mark_borders(axis, borders)
        axis.set_title(label, fontsize=9)
        axis.set_xlabel('frame', fontsize=8)
    legend(figure, axes[0])
    return svg(figure, axes)
