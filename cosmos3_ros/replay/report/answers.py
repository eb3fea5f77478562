# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The report of answers against those expected."""
from __future__ import annotations

import numpy as np

from ..questions import verdict
from .page import settings_line, template

_PAGE = template("""
<div class="card"><h2>Questions and answers</h2><table><tr><th>asked about
<th class="text">question<th class="text">expected<th class="text">answer<th>exact<th>likeness</tr>
{% for q, picture in rows %}<tr><td class="asked">{% if picture %}
{{ m.picture(picture, 'asked about') }}{% endif %}
<small>{{ '%.1f'|format(q.at) }} s · {{ q.cameras|join(', ') }}</small>
<td class="text">{{ q.text }}<td class="text">{{ q.expected|join(' or ') }}<td class="text answer">
{{ q.answer }}<td class="{{ 'good' if q.exact else 'bad' }}">{{ 'yes' if q.exact else 'no' }}
<td>{{ '%.2f'|format(q.fuzzy) }}</tr>{% endfor %}</table></div>{{ m.settings(settings) }}""",
                 'td{vertical-align:top}.asked{width:200px}.answer{overflow-wrap:anywhere}')


def render(result: dict) -> str:
    """HTML of a result of `questions.run`."""
    rows, settings, figures = result['questions'], result['settings'], result['scores']
    exact = sum(row['exact'] for row in rows)
    tiles = [('exact answers', f'{figures["exact"]:.0%}', f'{exact} of {len(rows)}; case, '
              'punctuation and spaces do not count'),
             ('likeness', f'{figures["fuzzy"]:.2f}', 'to the nearest expected answer, 1 is equal'),
             ('time', f'{np.mean(result["timing"]["answer_s"]):.2f} s', 'an answer')]
    return _PAGE.render(
        title=f'Answers about {result["bag"]}',
        lines=[verdict(result), settings_line(settings, ['checkpoint', 'precision'])],
        tiles=tiles, rows=list(zip(rows, result['drawing']['pictures'])), settings=settings)
