# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The look that all reports share."""
from __future__ import annotations

from collections.abc import Sequence

import jinja2

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<title>{{ title }}</title><link rel="icon" href="data:,"><style>
body{font:15px/1.45 system-ui,sans-serif;margin:0;background:#f4f5f7;color:#1d2330}
main{max-width:1320px;margin:0 auto;padding:20px 28px}h1{font-size:22px;margin:0 0 2px}
h2{font-size:16px;margin:0 0 8px}.card{background:#fff;border:1px solid #e1e4ea;border-radius:8px;
padding:14px 18px;margin:14px 0}
.tiles{display:grid;grid-template-columns:repeat({{ tiles|length }},1fr);gap:12px}
.tiles .card{margin:14px 0 0}.tiles b{display:block;font-size:22px}small,.muted{color:#687084}
.two{display:grid;grid-template-columns:1fr 1fr;gap:14px}.two .card{margin:0}
svg{width:100%;height:auto}table{border-collapse:collapse;width:100%}
td,th{text-align:right;padding:3px 8px;border-bottom:1px solid #edeff3}
td:first-child,th:first-child,.text{text-align:left}
.strip{display:grid;gap:6px;text-align:center}.strip img,td img{width:100%;border-radius:4px}
.border{border-left:3px dashed #c2410c;padding-left:4px;margin-left:-7px}
.name{width:160px}.good{color:#15803d}.bad{color:#c2410c}{% block style %}{% endblock %}</style>
<main>
<h1>{{ title }}</h1>{% for line in lines %}<div class="muted">{{ line }}</div>{% endfor %}
{% if tiles %}<div class="tiles">{% for name, value, note in tiles %}<div class="card">
<small>{{ name }}</small><b>{{ value }}</b><small>{{ note }}</small></div>{% endfor %}</div>
{% endif %}{% block body %}{% endblock %}</main></html>"""
_MACROS = """{% macro settings(values) %}<div class="card"><h2>Settings</h2><table>
{% for name, value in values.items() %}<tr><td class="name">{{ name|replace('_', ' ') }}
<td class="text">{{ value }}</tr>
{% endfor %}</table></div>{% endmacro %}
{% macro picture(data, alt) %}<img alt="{{ alt }}" src="data:image/jpeg;base64,{{ data }}">
{%- endmacro %}"""
_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.DictLoader({'page': _PAGE, 'macros': _MACROS}), autoescape=True)


def template(body: str, style: str = '') -> jinja2.Template:
    """A page with this body; `render` it with `title`, `lines`, `tiles` and what it needs."""
    return _ENVIRONMENT.from_string(
        "{% extends 'page' %}{% import 'macros' as m %}{% block style %}" + style
        + '{% endblock %}{% block body %}' + body + '{% endblock %}')


def settings_line(settings: dict, names: Sequence[str]) -> str:
    """Some settings in one line."""
    return ' · '.join(f'{name.replace("_", " ")} {settings[name]}' for name in names)


def number(value: float | None) -> str:
    """Three digits, '-' where there is none."""
    return '-' if value is None else f'{value:.3g}'
