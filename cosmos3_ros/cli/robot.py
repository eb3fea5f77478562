# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Verbs for a robot, real or simulated: its nodes, and clients of them."""
from __future__ import annotations

import argparse
from pathlib import Path
import sys

from .values import TRACE_HELP, count, size


def add(verbs: argparse._SubParsersAction) -> None:
    """Add the verbs to a parser."""
    _add_demo(verbs)
    run = verbs.add_parser('run', help='start the nodes; takes --ros-args as ros2 run does')
    run.add_argument('--trace', type=Path, default=None, metavar='FILE', help=TRACE_HELP)
    run.set_defaults(function=_run)
    _add_imagine(verbs)
    _add_ask(verbs)
    _add_record(verbs)


def _add_demo(verbs: argparse._SubParsersAction) -> None:
    demo = verbs.add_parser(
        'demo', help='a simulated DROID cell moved by the policy node; needs no GPU')
    demo.add_argument('--checkpoint', default='random:tiny',
                      help='folder, hub id or random: name (default: %(default)s)')
    demo.add_argument('--instruction', default='Pick up the banana and place it in the bowl')
    demo.add_argument('--seconds', type=float, default=None,
                      help='end after so many seconds of acting (default: at Ctrl-C)')
    demo.add_argument('--json', type=Path, default=None, metavar='FILE',
                      help='write the figures of the run')
    demo.add_argument('--trace', type=Path, default=None, metavar='FILE', help=TRACE_HELP)
    demo.set_defaults(function=_demo)


def _add_imagine(verbs: argparse._SubParsersAction) -> None:
    imagine = verbs.add_parser('imagine', help='a video of the future, from a world_model node '
                               'that runs; Ctrl-C cancels and keeps what came')
    imagine.set_defaults(function=_imagine)
    imagine.add_argument('prompt', help='what happens; with --session: from the next window on')
    imagine.add_argument('--out', type=Path, required=True, metavar='FILE', help='mp4 file')
    start = imagine.add_mutually_exclusive_group()
    start.add_argument('--camera', help='frame 0 is the newest picture of this camera')
    start.add_argument('--picture', type=Path, metavar='FILE', help='frame 0: a JPEG, PNG or WebP')
    imagine.add_argument('--frames', type=count, default=61,
                         help='4 n + 1, or 4 n with --session; 0: until Ctrl-C (default: 61)')
    imagine.add_argument('--size', type=size, metavar='WxH', help='pixels, multiples of 16')
    imagine.add_argument('--negative', dest='negative_prompt', metavar='PROMPT')
    imagine.add_argument('--mode', choices=('kv', 'chained', 'clip'))
    imagine.add_argument('--keep', action='store_true',
                         help='leave the session open, to go on with it')
    imagine.add_argument('--session', metavar='ID', help='go on with this session')
    imagine.add_argument('--steps', type=count, help='denoise steps a window')
    imagine.add_argument('--guidance', type=float, metavar='G')
    imagine.add_argument('--seed', type=count, help='(default: drawn)')
    imagine.add_argument('--namespace', default='', help='of the nodes')
    imagine.add_argument('--timeout', type=float, default=10.0,
                         help='s to wait for the node (default: %(default)s)')


def _add_ask(verbs: argparse._SubParsersAction) -> None:
    ask = verbs.add_parser('ask', help='a question to a reasoner node that runs, answered on '
                           'stdout as it is written; Ctrl-C cancels')
    ask.set_defaults(function=_ask)
    ask.add_argument('text', metavar='QUESTION')
    ask.add_argument('--camera', dest='cameras', action='append', default=[], metavar='NAME',
                     help='show its newest picture; may be repeated')
    ask.add_argument('--picture', dest='pictures', action='append', default=[], type=Path,
                     metavar='FILE', help='show a JPEG, PNG or WebP; may be repeated')
    ask.add_argument('--thinking', action=argparse.BooleanOptionalAction, default=False,
                     help='think first, which is written to stderr (default: no)')
    ask.add_argument('--max-tokens', type=count, default=0, metavar='N',
                     help="(default: the node's parameter max_tokens)")
    ask.add_argument('--temperature', type=float, default=0.0, metavar='T',
                     help='0 takes the likeliest token (default)')
    ask.add_argument('--namespace', default='', help='of the nodes')
    ask.add_argument('--timeout', type=float, default=10.0,
                     help='s to wait for the node (default: %(default)s)')


def _add_record(verbs: argparse._SubParsersAction) -> None:
    record = verbs.add_parser('record', help='record what the policy sees and says to an mcap '
                              'bag, until Ctrl-C')
    record.set_defaults(function=_record)
    record.add_argument('out', type=Path, help='a new folder')
    record.add_argument('--seconds', type=float, help='(default: until Ctrl-C)')
    record.add_argument('--topics', type=Path, metavar='FILE', help='as of replay')
    record.add_argument('--namespace', default='', help='of the nodes')


def _demo(options: argparse.Namespace, _: list[str]) -> int:
    from ..ros.demo import run_demo
    return run_demo(options.checkpoint, options.instruction, options.seconds, options.json,
                    options.trace)


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    from ..ros.process import main as run_process
    if options.trace is not None:
        rest = [*rest, '--ros-args', '-p', f'trace:={options.trace}']
    return run_process([sys.argv[0], *rest])


def _imagine(options: argparse.Namespace, _: list[str]) -> int:
    from ..ros.imagine_client import imagine
    names = ('prompt', 'camera', 'frames', 'negative_prompt', 'mode', 'session', 'steps',
             'guidance', 'seed')
    goal = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.size is not None:
        goal['width'], goal['height'] = options.size
    return imagine(goal, options.picture, options.out, options.keep, options.namespace,
                   options.timeout)


def _ask(options: argparse.Namespace, _: list[str]) -> int:
    from ..ros.ask_client import ask
    question = {name: getattr(options, name)
                for name in ('text', 'cameras', 'thinking', 'max_tokens', 'temperature')}
    return ask(question, options.pictures, options.namespace, options.timeout)


def _record(options: argparse.Namespace, _: list[str]) -> int:
    from ..replay import setup
    from ..ros.record import record
    return record(options.out, setup.read(options.topics), options.seconds, options.namespace)
