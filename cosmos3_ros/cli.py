# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The `cosmos3` command: one thin function a verb."""
from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
import sys

BENCHES = {
    'policy': 'action chunks', 'rollout': 'streamed videos', 'clip': 'whole videos',
    'image': 'pictures', 'reason': 'answers about pictures', 'vae': 'the VAE alone',
    'fidelity': 'what a precision changes in the output',
    'start': 'until all models are ready', 'all': 'everything'}
TRACE_HELP = 'write the jobs and units of the engine, for ui.perfetto.dev'


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
    _add_demo(verbs)
    run = verbs.add_parser('run', help='start the nodes; takes --ros-args as ros2 run does')
    run.add_argument('--trace', type=Path, default=None, metavar='FILE', help=TRACE_HELP)
    run.set_defaults(function=_run)
    _add_imagine(verbs)
    _add_ask(verbs)
    _add_record(verbs)
    _add_replay(verbs)
    _add_checkpoint(verbs)
    _add_bench(verbs)
    return parser


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
    imagine.add_argument('--frames', type=_count, default=61,
                         help='4 n + 1, or 4 n with --session; 0: until Ctrl-C (default: 61)')
    imagine.add_argument('--size', type=_size, metavar='WxH', help='pixels, multiples of 16')
    imagine.add_argument('--negative', dest='negative_prompt', metavar='PROMPT')
    imagine.add_argument('--mode', choices=('kv', 'chained', 'clip'))
    imagine.add_argument('--keep', action='store_true',
                         help='leave the session open, to go on with it')
    imagine.add_argument('--session', metavar='ID', help='go on with this session')
    imagine.add_argument('--steps', type=_count, help='denoise steps a window')
    imagine.add_argument('--guidance', type=float, metavar='G')
    imagine.add_argument('--seed', type=_count, help='(default: drawn)')
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
    ask.add_argument('--max-tokens', type=_count, default=0, metavar='N',
                     help="(default: the node's parameter max_tokens)")
    ask.add_argument('--temperature', type=float, default=0.0, metavar='T',
                     help='0 takes the likeliest token (default)')
    ask.add_argument('--namespace', default='', help='of the nodes')
    ask.add_argument('--timeout', type=float, default=10.0,
                     help='s to wait for the node (default: %(default)s)')


def _add_replay(verbs: argparse._SubParsersAction) -> None:
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
    pace.add_argument('--execute', type=_count, default=8, metavar='ROWS',
                      help='ask again after so many rows (default: %(default)s)')
    pace.add_argument('--latency', type=float, metavar='S',
                      help='ask as a live node whose chunks take so long')
    pace.add_argument('--live', action='store_true',
                      help='play the bag to a real policy node over ROS')
    task = replay.add_mutually_exclusive_group()
    task.add_argument('--imagine', type=_count, metavar='FRAMES',
                      help='score a video imagined from the first picture instead (4 n + 1)')
    task.add_argument('--questions', type=Path, metavar='FILE',
                      help='score answers to a YAML list of questions instead')
    replay.add_argument('--actions', action='store_true',
                        help='with --imagine: the recorded motion leads (forward dynamics)')
    replay.add_argument('--camera', default='', help='of --imagine (default: wrist; with '
                        '--actions the composed view of all three)')
    replay.add_argument('--steps', type=_positive,
                        help='denoise steps of --imagine (default: 20; with --actions 30)')
    replay.add_argument('--seed', type=_count, default=0)
    replay.add_argument('--device', choices=('auto', 'cuda', 'cpu'), default='auto')
    replay.add_argument('--precision', default='auto')
    replay.add_argument('--report', type=Path, metavar='FILE', help='HTML')
    replay.add_argument('--out', type=Path, metavar='DIR',
                        help='of several bags: a JSON and an HTML file each; what is there stays')
    replay.add_argument('--ray', nargs='?', const='', metavar='ADDRESS',
                        help='with --out: spread bags over a Ray cluster (default: a local one)')
    replay.add_argument('--json', type=Path, metavar='FILE')


def _add_record(verbs: argparse._SubParsersAction) -> None:
    record = verbs.add_parser('record', help='record what the policy sees and says to an mcap '
                              'bag, until Ctrl-C')
    record.set_defaults(function=_record)
    record.add_argument('out', type=Path, help='a new folder')
    record.add_argument('--seconds', type=float, help='(default: until Ctrl-C)')
    record.add_argument('--topics', type=Path, metavar='FILE', help='as of replay')
    record.add_argument('--namespace', default='', help='of the nodes')


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'found {text!r}, wanted a number from 0 on')
    return int(text)


def _positive(text: str) -> int:
    if not _count(text):
        raise argparse.ArgumentTypeError(f'found {text!r}, wanted a number from 1 on')
    return int(text)


def _names(text: str) -> list[str]:
    return text.split(',')


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition('x')
    return _count(width), _count(height)


def _add_checkpoint(verbs: argparse._SubParsersAction) -> None:
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


def _add_bench(verbs: argparse._SubParsersAction) -> None:
    bench = verbs.add_parser('bench', help='measure tasks on this machine')
    groups = bench.add_subparsers(dest='group', required=True, metavar='GROUP')
    for group, what in BENCHES.items():
        _add_bench_group(groups.add_parser(group, help=what))
    _add_bench_mixed(groups)


def _add_bench_group(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(function=_bench)
    bench.add_argument('--works', type=_names, default=[], metavar='A,B',
                       help='these alone, by the names of their rows')
    bench.add_argument('--checkpoint', default='random:edge', help='makes videos and answers')
    bench.add_argument('--policy-checkpoint', default='random:edge-droid')
    bench.add_argument('--precision', nargs='+', default=['auto'], metavar='P',
                       choices=('auto', 'fp32', 'bf16', 'fp8'), help='one or several')
    bench.add_argument('--runs', type=_positive, default=5, help='after warm-up (default: 5)')
    bench.add_argument('--against', choices=('diffusers',), default=None,
                       help='measure its transformer, VAE and pipeline too, eager and compiled')
    bench.add_argument('--quick', action='store_true',
                       help='tiny sizes, to see that everything works')
    bench.add_argument('--device', choices=('auto', 'cuda', 'cpu'), default='auto')
    bench.add_argument('--json', type=Path, default=None, metavar='FILE',
                       help='write environment and rows, anew after every work')


def _add_bench_mixed(groups: argparse._SubParsersAction) -> None:
    mixed = groups.add_parser('mixed', help='the policy alone, then all three tasks at once')
    mixed.set_defaults(function=_bench_mixed)
    mixed.add_argument('--checkpoint', default='random:edge')
    mixed.add_argument('--policy-checkpoint', default='random:edge-droid')
    mixed.add_argument('--streams', type=int, default=8, help='that ask (default: 8)')
    mixed.add_argument('--rollout', choices=('kv', 'chained'), default='kv')
    mixed.add_argument('--size', default='832x480', metavar='WxH')
    mixed.add_argument('--seconds', type=float, default=60.0, help='with all (default: 60)')
    mixed.add_argument('--trace', type=Path, default=None, metavar='FILE', help=TRACE_HELP)
    mixed.add_argument('--device', choices=('auto', 'cuda', 'cpu'), default='auto')
    mixed.add_argument('--json', type=Path, default=None, metavar='FILE')


def _demo(options: argparse.Namespace, _: list[str]) -> int:
    from .ros.demo import run_demo
    return run_demo(options.checkpoint, options.instruction, options.seconds, options.json,
                    options.trace)


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    from .ros.process import main as run_process
    if options.trace is not None:
        rest = [*rest, '--ros-args', '-p', f'trace:={options.trace}']
    return run_process([sys.argv[0], *rest])


def _imagine(options: argparse.Namespace, _: list[str]) -> int:
    from .ros.imagine_client import imagine
    names = ('prompt', 'camera', 'frames', 'negative_prompt', 'mode', 'session', 'steps',
             'guidance', 'seed')
    goal = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.size is not None:
        goal['width'], goal['height'] = options.size
    return imagine(goal, options.picture, options.out, options.keep, options.namespace,
                   options.timeout)


def _ask(options: argparse.Namespace, _: list[str]) -> int:
    from .ros.ask_client import ask
    question = {name: getattr(options, name)
                for name in ('text', 'cameras', 'thinking', 'max_tokens', 'temperature')}
    return ask(question, options.pictures, options.namespace, options.timeout)


def _record(options: argparse.Namespace, _: list[str]) -> int:
    from .replay import setup
    from .ros.record import record
    return record(options.out, setup.read(options.topics), options.seconds, options.namespace)


def _replay(options: argparse.Namespace, _: list[str]) -> int:
    from .replay import compare, runner, setup
    if options.compare is not None:
        found = compare.compare(*options.compare)
        print(compare.table(found))
        if options.report is not None:
            from .replay.report import comparison
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
        return _replay_many(options, setup.read(options.topics))
    if len(options.bags) > 1 or options.ray is not None:
        raise ValueError('replay: several bags and --ray want --out, a folder for the results')
    names = setup.read(options.topics)
    common = options.device, options.precision
    if other:
        return _replay_other(options, names, common)
    if options.live:
        from .ros import live_replay
        result = live_replay.run(options.bags[0], options.checkpoint, names, options.instruction,
                                 options.seed, options.device)
    else:
        job = _job(options, options.bags[0], names)
        loaded = runner.Loaded(options.checkpoint, *common)
        result = loaded.run(job.bag, names, job.pace(), job.instruction, job.seed)
        loaded.close()
    return _finish_replay(options, result, runner.verdict(result))


def _finish_replay(options: argparse.Namespace, result: dict, verdict: str) -> int:
    from .replay import report, runner
    if options.json is not None:
        runner.write_json(result, options.json)
    if options.report is not None:
        report.write(result, options.report)
    print(verdict)
    return 0


def _job(options: argparse.Namespace, bag: str, names):
    from .replay.spread import Job
    return Job(bag, options.checkpoint, names, options.execute, options.latency,
               options.instruction, options.seed, options.device, options.precision)


def _replay_many(options: argparse.Namespace, names) -> int:
    from .replay.spread import run_all
    jobs = [_job(options, bag, names) for bag in options.bags]
    return 1 if run_all(jobs, options.out, options.ray) else 0


def _replay_other(options: argparse.Namespace, names, common: tuple[str, str]) -> int:
    from .replay import questions, world
    bag, checkpoint = options.bags[0], options.checkpoint
    if options.questions is not None:
        result = questions.run(bag, checkpoint, names, questions.read(options.questions), *common)
        return _finish_replay(options, result, questions.verdict(result))
    task = world.Task(options.imagine, options.actions, options.camera, options.instruction,
                      options.steps, options.seed)
    result = world.run(bag, checkpoint, names, task, *common)
    return _finish_replay(options, result, world.verdict(result))


def _inspect(options: argparse.Namespace, _: list[str]) -> int:
    from .model.inspection import inspect
    print(inspect(options.checkpoint, options.base))
    return 0


def _make_tiny(options: argparse.Namespace, _: list[str]) -> int:
    from .model.write_checkpoint import write_tiny
    write_tiny(options.folder, options.variant)
    print(f'wrote {options.folder}')
    return 0


def _bench(options: argparse.Namespace, _: list[str]) -> int:
    from .bench.suite import Suite, pick
    from .engine.device import pick_device
    works = pick(options.group, options.works, options.against)
    references = {'base': options.checkpoint, 'policy': options.policy_checkpoint}
    suite = Suite(pick_device(options.device), references, options.runs, options.quick,
                  options.json)
    return suite.run(works, options.precision)


def _bench_mixed(options: argparse.Namespace, _: list[str]) -> int:
    from .bench import mixed, report
    from .engine.device import pick_device, pick_dtype
    from .tasks.rollout import RolloutRecipe
    device = pick_device(options.device)
    width, height = _size(options.size)
    recipe = RolloutRecipe(mode=options.rollout, width=width, height=height)
    load = mixed.Load(recipe, streams=options.streams, seconds=options.seconds)
    rows = mixed.measure(options.checkpoint, options.policy_checkpoint, device,
                         pick_dtype('auto', device), load, options.trace)
    report.write(rows, device, options.json)
    return 0


if __name__ == '__main__':
    sys.exit(main())
