# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Measurements."""
from __future__ import annotations

import argparse
from pathlib import Path

from .values import TRACE_HELP, names, positive, size

_GROUPS = {
    'policy': 'action chunks', 'rollout': 'streamed videos', 'clip': 'whole videos',
    'image': 'pictures', 'reason': 'answers about pictures', 'vae': 'the VAE alone',
    'fidelity': 'what a precision changes in the output',
    'start': 'until all models are ready', 'all': 'everything'}


def add(verbs: argparse._SubParsersAction) -> None:
    """Add the verb to a parser."""
    bench = verbs.add_parser('bench', help='measure tasks on this machine')
    groups = bench.add_subparsers(dest='group', required=True, metavar='GROUP')
    for group, what in _GROUPS.items():
        _add_group(groups.add_parser(group, help=what))
    _add_mixed(groups)


def _add_group(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(function=_bench)
    bench.add_argument('--works', type=names, default=[], metavar='A,B',
                       help='these alone, by the names of their rows')
    bench.add_argument('--checkpoint', default='random:edge', help='makes videos and answers')
    bench.add_argument('--policy-checkpoint', default='random:edge-droid')
    bench.add_argument('--precision', nargs='+', default=['auto'], metavar='P',
                       choices=('auto', 'fp32', 'bf16', 'fp8'), help='one or several')
    bench.add_argument('--runs', type=positive, default=5, help='after warm-up (default: 5)')
    bench.add_argument('--against', choices=('diffusers',), default=None,
                       help='measure its transformer, VAE and pipeline too, eager and compiled')
    bench.add_argument('--quick', action='store_true',
                       help='tiny sizes, to see that everything works')
    bench.add_argument('--device', choices=('auto', 'cuda', 'cpu'), default='auto')
    bench.add_argument('--json', type=Path, default=None, metavar='FILE',
                       help='write environment and rows, anew after every work')


def _add_mixed(groups: argparse._SubParsersAction) -> None:
    mixed = groups.add_parser('mixed', help='the policy alone, then all three tasks at once')
    mixed.set_defaults(function=_mixed)
    mixed.add_argument('--checkpoint', default='random:edge')
    mixed.add_argument('--policy-checkpoint', default='random:edge-droid')
    mixed.add_argument('--streams', type=int, default=8, help='that ask (default: 8)')
    mixed.add_argument('--rollout', choices=('kv', 'chained'), default='kv')
    mixed.add_argument('--size', default='832x480', metavar='WxH')
    mixed.add_argument('--seconds', type=float, default=60.0, help='with all (default: 60)')
    mixed.add_argument('--trace', type=Path, default=None, metavar='FILE', help=TRACE_HELP)
    mixed.add_argument('--device', choices=('auto', 'cuda', 'cpu'), default='auto')
    mixed.add_argument('--json', type=Path, default=None, metavar='FILE')


def _bench(options: argparse.Namespace, _: list[str]) -> int:
    from ..bench.suite import Suite, pick
    from ..engine.device import pick_device
    works = pick(options.group, options.works, options.against)
    references = {'base': options.checkpoint, 'policy': options.policy_checkpoint}
    suite = Suite(pick_device(options.device), references, options.runs, options.quick,
                  options.json)
    return suite.run(works, options.precision)


def _mixed(options: argparse.Namespace, _: list[str]) -> int:
    from ..bench import mixed, report
    from ..engine.device import pick_device, pick_dtype
    from ..tasks.rollout import RolloutRecipe
    device = pick_device(options.device)
    width, height = size(options.size)
    recipe = RolloutRecipe(mode=options.rollout, width=width, height=height)
    load = mixed.Load(recipe, streams=options.streams, seconds=options.seconds)
    rows = mixed.measure(options.checkpoint, options.policy_checkpoint, device,
                         pick_dtype('auto', device), load, options.trace)
    report.write(rows, device, options.json)
    return 0
