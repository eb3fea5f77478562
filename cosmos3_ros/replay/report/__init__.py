# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Results as HTML files that need no network, one module a kind of result."""
from __future__ import annotations

from pathlib import Path

from .. import questions, runner, world
from . import answers, frames, policy

_KINDS = {runner.FORMAT: policy, world.FORMAT: frames, questions.FORMAT: answers}


def write(result: dict, path: Path) -> None:
    """Write the report of a result of `runner`, `world` or `questions`."""
    path.write_text(_KINDS[result['format']].render(result), encoding='utf-8')
