# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Recorded episodes: what a checkpoint makes of them."""
from __future__ import annotations

import argparse
from pathlib import Path

from .values import count, positive


def add(verbs: argparse._SubParsersAction) -> None:
    """Add the verb to a parser."""
    replay = verbs.add_parser('replay', help='run the policy over a recorded bag and compare it '
                              'with the recorded motion; needs no ROS')
    replay.set_defaults(function=_replay)
    replay.add_argument('bags', nargs='*', metavar='BAG',
                        help='bag folder, .mcap or .db3 file, or sample')
    replay.add_argument('--compare', nargs=2, type=Path, metavar='JSON',
                        help='two results of one bag: paired differences, second minus first')
    replay.add_argument('--checkpoint', help='folder, hub id or random: name')
    replay.add_argument('--topics', type=Path, metavar='FILE',
                        help='YAML map of topics, joints and limits, or a parameter file')
    replay.add_argument('--instruction', default='', help="(default: the bag's)")
    pace = replay.add_mutually_exclusive_group()
    pace.add_argument('--execute', type=count, default=8, metavar='ROWS',
                      help='ask again after so many rows (default: %(default)s)')
    pace.add_argument('--latency', type=float, metavar='S',
                      help='ask as a live node whose chunks take so long')
    pace.add_argument('--live', action='store_true',
                      help='play the bag to a real policy node over ROS')
    task = replay.add_mutually_exclusive_group()
    task.add_argument('--imagine', type=count, metavar='FRAMES',
                      help='score a video imagined from the first picture instead (4 n + 1)')
    task.add_argument('--questions', type=Path, metavar='FILE',
                      help='score answers to a YAML list of questions instead')
    replay.add_argument('--actions', action='store_true',
                        help='with --imagine: the recorded motion leads (forward dynamics)')
    replay.add_argument('--camera', default='', help='of --imagine (default: wrist; with '
                        '--actions the composed view of all three)')
    replay.add_argument('--steps', type=positive,
                        help='denoise steps of --imagine (default: 20; with --actions 30)')
    replay.add_argument('--seed', type=count, default=0)
    replay.add_argument('--device', choices=('auto', 'cuda', 'cpu'), default='auto')
    replay.add_argument('--precision', default='auto')
    replay.add_argument('--report', type=Path, metavar='FILE', help='HTML')
    replay.add_argument('--out', type=Path, metavar='DIR',
                        help='of several bags: a JSON and an HTML file each; what is there stays')
    replay.add_argument('--ray', nargs='?', const='', metavar='ADDRESS',
                        help='with --out: spread bags over a Ray cluster (default: a local one)')
    replay.add_argument('--json', type=Path, metavar='FILE')


def _replay(options: argparse.Namespace, _: list[str]) -> int:
    from ..replay import compare, runner, setup
    if options.compare is not None:
        found = compare.compare(*options.compare)
        print(compare.table(found))
        if options.report is not None:
            from ..replay.report import comparison
            comparison.write(found, options.report)
        return 0
    if not options.bags or options.checkpoint is None:
        raise ValueError('replay: wanted a bag and --checkpoint, or --compare with two results')
    other = options.questions is not None or options.imagine is not None
    if options.actions and options.imagine is None:
        raise ValueError('--actions: wanted --imagine with it, a number of frames')
    if other and (options.live or options.out is not None):
        raise ValueError('--imagine, --questions: take one bag and neither --live nor --out')
    if options.out is not None:
        return _many(options, setup.read(options.topics))
    if len(options.bags) > 1 or options.ray is not None:
        raise ValueError('replay: several bags and --ray want --out, a folder for the results')
    names = setup.read(options.topics)
    common = options.device, options.precision
    if other:
        return _other(options, names, common)
    if options.live:
        from ..ros import live_replay
        result = live_replay.run(options.bags[0], options.checkpoint, names, options.instruction,
                                 options.seed, options.device)
    else:
        job = _job(options, options.bags[0], names)
        loaded = runner.Loaded(options.checkpoint, *common)
        result = loaded.run(job.bag, names, job.pace(), job.instruction, job.seed)
        loaded.close()
    return _finish(options, result, runner.verdict(result))


def _finish(options: argparse.Namespace, result: dict, verdict: str) -> int:
    from ..replay import report, runner
    if options.json is not None:
        runner.write_json(result, options.json)
    if options.report is not None:
        report.write(result, options.report)
    print(verdict)
    return 0


def _job(options: argparse.Namespace, bag: str, names):
    from ..replay.spread import Job
    return Job(bag, options.checkpoint, names, options.execute, options.latency,
               options.instruction, options.seed, options.device, options.precision)


def _many(options: argparse.Namespace, names) -> int:
    from ..replay.spread import run_all
    jobs = [_job(options, bag, names) for bag in options.bags]
    return 1 if run_all(jobs, options.out, options.ray) else 0


def _other(options: argparse.Namespace, names, common: tuple[str, str]) -> int:
    from ..replay import questions, world
    bag, checkpoint = options.bags[0], options.checkpoint
    if options.questions is not None:
        result = questions.run(bag, checkpoint, names, questions.read(options.questions), *common)
        return _finish(options, result, questions.verdict(result))
    task = world.Task(options.imagine, options.actions, options.camera, options.instruction,
                      options.steps, options.seed)
    result = world.run(bag, checkpoint, names, task, *common)
    return _finish(options, result, world.verdict(result))
