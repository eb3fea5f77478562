# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Values on the command line; what is wrong is said with what was wanted."""
from __future__ import annotations

import argparse

TRACE_HELP = 'write the jobs and units of the engine, for ui.perfetto.dev'


def count(text: str) -> int:
    """A number from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'found {text!r}, wanted a number from 0 on')
    return int(text)


def positive(text: str) -> int:
    """A number from 1 on."""
    if not count(text):
        raise argparse.ArgumentTypeError(f'found {text!r}, wanted a number from 1 on')
    return int(text)


def names(text: str) -> list[str]:
    """Names with commas between."""
    return text.split(',')


def size(text: str) -> tuple[int, int]:
    """(width, height) of WxH."""
    width, _, height = text.partition('x')
    return count(width), count(height)
