# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The `cosmos3` command: a module for each group of verbs, one thin function a verb."""
from __future__ import annotations

import argparse
from collections.abc import Sequence
import sys

from . import bench, checkpoint, replay, robot


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; returns the exit code. Wrong input is one line on stderr and code 2."""
    options, rest = _parser().parse_known_args(arguments)
    if rest and options.verb != 'run':
        _parser().error(f'unknown arguments: {" ".join(rest)}')
    try:
        return options.function(options, rest)
    except ValueError as error:     # a CheckpointError too
        print(f'cosmos3: {error}', file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='cosmos3', description='Cosmos3-Edge on a robot: act, imagine, answer.')
    verbs = parser.add_subparsers(dest='verb', required=True, metavar='VERB')
    for group in (robot, replay, checkpoint, bench):
        group.add(verbs)
    return parser
