# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Parts that plots of several reports share; times in s."""
from __future__ import annotations

from collections.abc import Sequence
import io

import markupsafe
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

BLUE, ORANGE, GREY, INK = '#2f7de0', '#e07a2f', '#687084', '#1d2330'


def svg(figure: Figure, axes: Sequence[Axes]) -> markupsafe.Markup:
    """The figure as an SVG element."""
    for axis in axes:
        axis.spines[['top', 'right']].set_visible(False)
        axis.tick_params(labelsize=8)
    FigureCanvasSVG(figure)
    stream = io.StringIO()
    figure.savefig(stream, format='svg', metadata={'Date': None})
    text = stream.getvalue()
    return markupsafe.Markup(text[text.index('<svg'):])


def legend(figure: Figure, axis: Axes) -> None:
    """What the lines of a plot are, above all plots."""
    figure.legend(*axis.get_legend_handles_labels(), loc='outside upper right', ncols=4,
                  fontsize=8, frameon=False)


def mark_borders(axis: Axes, places: Sequence[float]) -> None:
    """Dashed lines where a window begins."""
    for index, place in enumerate(places):
        axis.axvline(place, color='#c2410c', lw=1, ls='--',
                     label=None if index else 'window border')
