# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, without running them."""
from __future__ import annotations

import argparse
from pathlib import Path


def add(verbs: argparse._SubParsersAction) -> None:
    """Add the verb to a parser."""
    checkpoint = verbs.add_parser('checkpoint', help='look at checkpoints, or make a tiny one')
    actions = checkpoint.add_subparsers(dest='action', required=True, metavar='ACTION')
    inspect = actions.add_parser('inspect', help='sizes, towers, sharing, memory needed')
    inspect.add_argument('checkpoint', help='folder, hub id or random: name')
    inspect.add_argument('--base', default=None, help='checkpoint that is loaded beside it')
    inspect.set_defaults(function=_inspect)
    make = actions.add_parser(
        'make-tiny', help='write a tiny random one that diffusers and transformers load too')
    make.add_argument('folder', type=Path)
    make.add_argument('--variant', choices=('tiny', 'tiny-droid'), default='tiny')
    make.set_defaults(function=_make_tiny)


def _inspect(options: argparse.Namespace, _: list[str]) -> int:
    from ..model.inspection import inspect
    print(inspect(options.checkpoint, options.base))
    return 0


def _make_tiny(options: argparse.Namespace, _: list[str]) -> int:
    from ..model.write_checkpoint import write_tiny
    write_tiny(options.folder, options.variant)
    print(f'wrote {options.folder}')
    return 0
