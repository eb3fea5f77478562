# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A policy run over a bag, and what its chunks are worth, as plain values."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
import json
from pathlib import Path
import time

import cv2
import numpy as np
from tqdm import tqdm

from cosmos3_ros.control.gate import GateError, check_finite
from cosmos3_ros.droid.actions import joint_targets
from cosmos3_ros.droid.observation import CAMERAS, Observation, ObservationError
from cosmos3_ros.droid.recipe import STEP, request
from cosmos3_ros.engine.device import pick_device, pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.sensing.images import ImageError
from cosmos3_ros.sensing.intake import observe
from cosmos3_ros.tasks.policy import policy

from . import scores
from .bag import Bag, BagError
from .motion import Motion
from .pictures import jpeg
from .setup import Setup
from .timeline import EveryRows, Pace, Refused, walk

Ask = Callable[[Observation, int], np.ndarray]
STEP_NS = round(STEP * 1e9)
STRIP = 8               # moments shown of an episode
FORMAT = 'cosmos3-replay/2'


@dataclass(frozen=True)
class Chunk:
    """Targets, float64 [h, 8], of an observation; `stamp` and `ready` in ns of recorded time.

    `inputs`: stamps of what was seen, in ns by stream. `seconds`: until the answer came, by the
    machine's clock. `refused`: observations so far.
    """

    stamp: int
    ready: int
    inputs: Mapping[str, int]
    seed: int
    targets: np.ndarray
    seconds: float
    refused: int


class Loaded:
    """A checkpoint on an engine of its own, for bag after bag. Raises CheckpointError."""

    def __init__(self, checkpoint: str, device: str = 'auto', precision: str = 'auto'):
        place = pick_device(device)
        self._engine = Engine(place)
        self._settings = {'checkpoint': checkpoint, 'device': place.type, 'precision': precision}
        self._model = ModelLibrary(self._engine).acquire(
            checkpoint, pick_dtype(precision, place)).result()

    def run(self, bag: str, setup: Setup, pace: Pace, instruction: str, seed: int) -> dict:
        """Replay a bag; see `replay`."""
        with Bag(bag) as opened:
            result = replay(opened, setup, pace, instruction, seed, self._ask)
        result['settings'] |= self._settings
        return result

    def close(self) -> None:
        """End the engine."""
        self._engine.close()

    def _ask(self, observation: Observation, seed: int) -> np.ndarray:
        job = policy(self._model, request(observation, seed))
        return self._engine.submit(job, task='policy').result().actions


def replay(bag: Bag, setup: Setup, pace: Pace, instruction: str, seed: int, ask: Ask) -> dict:
    """Ask about every observation of a bag and score the chunks.

    `ask` gets an observation and a seed, counted up from `seed`, and returns the network's rows,
    float32 [h, 8]. The result is plain values; `timing` alone depends on the machine, `drawing` is
    for the report. Raises BagError if no chunk came.
    """
    chunks: list[Chunk] = []
    refused, codes = Counter(), {}
    strip = []
    bar = tqdm(total=round((bag.end - bag.start) * 1e-9, 1), unit='s', desc=bag.name, disable=None)
    started = time.monotonic()
    for moment in walk(bag, setup, pace, instruction):
        bar.update(round((getattr(moment, 'time', None) or moment.taken) * 1e-9
                         - bag.start * 1e-9 - bar.n, 2))
        if isinstance(moment, Refused):
            _count(refused, codes, moment.refusal.code, moment.refusal.text)
            continue
        if not isinstance(pace, EveryRows) and (
                moment.ready - moment.snapshot.stamp > setup.max_reply_age * 1e9):
            _count(refused, codes, 'late', 'the chunk would come later than max_reply_age')
            continue
        number = (seed + len(chunks)) % 2**32
        try:
            observation = observe(moment.snapshot, moment.instruction, setup.gripper_range())
            asked = time.monotonic()
            targets = joint_targets(ask(observation, number))
            seconds = time.monotonic() - asked
            check_finite(targets, setup.joint_names)
        except (ImageError, ObservationError, GateError) as error:
            code = {ImageError: 'picture', GateError: 'not_finite'}.get(type(error), 'observation')
            _count(refused, codes, code, str(error))
            continue
        stamp = moment.snapshot.stamp
        chunks.append(Chunk(stamp, moment.ready, moment.snapshot.stamps, number, targets, seconds,
                            sum(refused.values())))
        if (stamp - bag.start) * STRIP >= len(strip) * (bag.end - bag.start):
            strip.append(((stamp - bag.start) * 1e-9, _thumbnail(observation)))
    bar.close()
    if not chunks:
        reasons = '; '.join(codes.values()) or 'no picture came while there was an instruction'
        raise BagError(f'bag {bag.path}: no observation could be used: {reasons}')
    return score(bag, setup, pace.text, instruction, seed, chunks, refused, codes, strip) | {
        'timing': timing(chunks, time.monotonic() - started,
                         sum(chunk.seconds for chunk in chunks))}


def timing(chunks: list[Chunk], wall: float, busy: float) -> dict:
    """What depends on the machine; `wall`, `busy`: s of the run, and of them for the actions."""
    seconds = [chunk.seconds for chunk in chunks]
    return {'wall_s': wall, 'latency_s': scores.spread(np.array(seconds)),
            'chunk_latency_s': seconds,
            'actions_per_second': sum(len(chunk.targets) for chunk in chunks) / busy}


def verdict(result: dict) -> str:
    """One line: how far from the recording, against an arm that holds still."""
    figures, refused = result['scores'], result['refused']
    error, hold = figures['joint_error']['mean'], figures['hold_error']['mean']
    agreement = figures['gripper_agreement']
    if error is None:
        return f'{result["bag"]}: nothing was recorded where chunks are due'
    against = 'better' if error < hold else 'worse'
    return (f'{result["bag"]}: {against} than holding still ({error:.3f} rad from the recording, '
            f'holding {hold:.3f}); gripper agrees in {agreement:.0%}; '
            f'{len(result["chunks"])} chunks, {refused["share"]:.0%} of observations refused')


def score(bag: Bag, setup: Setup, pace: str, instruction: str, seed: int, chunks: list[Chunk],
          refused: Counter, codes: dict[str, str], strip: list[tuple[float, str]]) -> dict:
    """What chunks are worth against the recorded motion; see `replay`.

    `refused` counts observations by code, `codes` has an example of each; `strip`: s and JPEG.
    """
    motion = Motion(bag, setup)
    stamps = np.array([chunk.stamp for chunk in chunks], np.int64)
    ready = np.array([chunk.ready for chunk in chunks], np.int64)
    targets = np.stack([chunk.targets for chunk in chunks])
    states = motion.at(stamps)
    due = stamps[:, None] + STEP_NS * np.arange(targets.shape[1])
    recorded = motion.at(due.ravel()).reshape(targets.shape)
    errors = scores.joint_errors(targets, recorded)
    holds = scores.joint_errors(np.broadcast_to(states[:, None], targets.shape), recorded)
    times, rows = scores.executed(stamps, ready, targets, STEP_NS)
    seams = scores.seam_jumps(stamps, ready, targets, STEP_NS)
    overlaps = scores.disagreement(stamps, targets, STEP_NS)
    total = len(chunks) + sum(refused.values())
    return {
        'format': FORMAT, 'bag': bag.name,
        'duration_s': (bag.end - bag.start) * 1e-9,
        'settings': {'pace': pace, 'seed': seed, 'instruction': instruction,
                     'setup': asdict(setup)},
        'scores': {
            'joint_error': scores.spread(errors), 'hold_error': scores.spread(holds),
            'by_joint': {name: scores.spread(errors[..., i])
                         for i, name in enumerate(setup.arm_joints)},
            'by_step': {name: scores.spread(errors[..., i], 0)
                        for i, name in enumerate(setup.arm_joints)},
            'gripper_agreement': scores.gripper_agreement(targets[..., 7], recorded[..., 7]),
            'gripper_switches': scores.switch_timing(times, rows[:, 7], motion.at(times)[:, 7]),
            'seam_jump': scores.spread(seams), 'disagreement': scores.spread(overlaps),
            'jerk': scores.jerk(targets, STEP), 'recorded_jerk': scores.jerk(recorded, STEP)},
        'refused': {'share': sum(refused.values()) / total, 'counts': dict(refused),
                    'examples': codes},
        'chunks': _by_chunk(chunks, errors, holds, recorded, seams, overlaps,
                            sum(refused.values())),
        'drawing': {'start': bag.start, 'stamps': stamps, 'targets': targets, 'strip': strip,
                    'times': motion.times, 'recorded': motion.at(motion.times),
                    'names': setup.joint_names, 'errors': errors, 'holds': holds}}


def _by_chunk(chunks: list[Chunk], errors: np.ndarray, holds: np.ndarray, recorded: np.ndarray,
              seams: np.ndarray, overlaps: np.ndarray, refused: int) -> list[dict]:
    """Figures of each chunk alone; seam and disagreement are with the chunk before.

    `refused`: observations from this chunk on to the next; the first has those before it too.
    """
    counts = np.diff([0, *(chunk.refused for chunk in chunks[1:]), refused])
    rows = []
    for i, chunk in enumerate(chunks):
        row, truth = chunk.targets[None], recorded[i:i + 1]
        rows.append({
            'stamp': int(chunk.stamp), 'seed': chunk.seed,
            'joint_error': scores.spread(errors[i])['mean'],
            'by_joint': scores.spread(errors[i], 0)['mean'],
            'hold_error': scores.spread(holds[i])['mean'],
            'gripper_agreement': scores.gripper_agreement(row[..., 7], truth[..., 7]),
            'seam_jump': scores.spread(seams[i - 1])['mean'] if i else None,
            'disagreement': scores.spread(overlaps[i - 1])['mean'] if i else None,
            'jerk': scores.jerk(row, STEP), 'refused': int(counts[i])})
    return rows


def _count(refused: Counter, codes: dict[str, str], code: str, text: str) -> None:
    refused[code] += 1
    codes.setdefault(code, text)


def _thumbnail(observation: Observation) -> str:
    """The three pictures, one below the other, as base64 of a JPEG."""
    pictures = [cv2.resize(observation.pictures[name], (192, 108), interpolation=cv2.INTER_AREA)
                for name in CAMERAS]
    return jpeg(np.concatenate(pictures))


def write_json(result: dict, path: Path) -> None:
    """All but what is drawn."""
    values = {name: value for name, value in result.items() if name != 'drawing'}
    path.write_text(json.dumps(values, indent=1) + '\n', encoding='utf-8')
