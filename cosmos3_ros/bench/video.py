# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Streamed videos, clips and pictures, from the prompt to frames in host memory."""
from __future__ import annotations

from dataclasses import replace
import json
import time

import numpy as np

from ..model.cosmos3 import Cosmos3
from ..tasks.rollout import Frame, RolloutRecipe, RolloutSession
from .report import Row
from .setting import Setting

PROMPT = json.dumps({
    'scene': 'A kitchen counter in daylight with a white bowl, a banana and a folded towel. The '
             'camera stands still, a little above the counter, and sees the whole robot arm.',
    'actions': [{'time': '0:00-0:02', 'description': 'The arm moves above the banana and opens '
                                                     'its gripper.'},
                {'time': '0:02-0:05', 'description': 'It lifts the banana and puts it into the '
                                                     'bowl without touching the towel.'}]})
WARM_UPS = 2
NEGATIVE = json.dumps({'quality': 'Blurry, shaking and dark pictures with artefacts, objects that '
                                  'melt into each other, sudden cuts, text on the screen.'})


def rollout(setting: Setting, mode: str) -> list[Row]:
    """A streamed video from a picture: time to its first frame, and its frames per second."""
    recipe, frames = replace(setting.sizes.rollout, mode=mode), setting.sizes.rollout_frames
    taken, (first, last) = _measure(setting, recipe, frames, picture=True)
    row = _Rows(f'rollout_{mode}', setting, recipe, frames)
    return [row('first_frame_s', 's', [run[0] for run in taken], first),
            row('frames_per_s', '1/s', [frames / run[1] for run in taken], frames / last)]


def clip(setting: Setting, work: str, picture: bool) -> list[Row]:
    """A whole video at once, from a picture or from text alone."""
    recipe, frames = replace(setting.sizes.rollout, mode='clip'), setting.sizes.clip_frames
    taken, (_, last) = _measure(setting, recipe, frames, picture)
    return [_Rows(work, setting, recipe, frames)('wall_s', 's', [run[1] for run in taken],
                                                   last)]


def image(setting: Setting) -> list[Row]:
    """A picture from text."""
    recipe = setting.sizes.image
    taken, (_, last) = _measure(setting, recipe, 1, picture=False)
    return [_Rows('image_640', setting, recipe, 1)(
        'latency_ms', 'ms', [1e3 * run[1] for run in taken], 1e3 * last)]


class _Rows:
    """Makes rows of one work."""

    def __init__(self, work: str, setting: Setting, recipe: RolloutRecipe, frames: int):
        self._work, self._precision = work, setting.precision
        what = f'{frames} frames of' if frames > 1 else 'a picture of'
        self._shape = (f'{what} {recipe.width}x{recipe.height}, {recipe.steps} steps, guidance '
                       f'{recipe.guidance:g}')
        if recipe.mode != 'clip':
            self._shape += f', windows of {recipe.window} latents'

    def __call__(self, metric: str, unit: str, runs: list[float], floor: float) -> Row:
        return Row(self._work, self._shape, self._precision, metric, unit, tuple(runs), floor)


def _measure(setting: Setting, recipe: RolloutRecipe, frames: int,
             picture: bool) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Seconds to the first and to the last frame of each run, and their floors.

    Two warm-ups make all frames, with fewer steps: work that comes again is run, then recorded.
    Every run has a prompt of its own, which is read anew.
    """
    model = setting.model('base')
    start = np.random.default_rng(0).integers(0, 256, (480, 832, 3), np.uint8) if picture else None
    for seed in range(WARM_UPS):
        stream(setting, model, replace(recipe, steps=min(2, recipe.steps)), start, frames, seed)
    taken = [stream(setting, model, recipe, start, frames, WARM_UPS + run)
             for run in range(setting.runs)]
    texts = [len(model.tokenizer.encode(prompt)) for prompt in _prompts(0)]
    return taken, setting.floors('base').video(recipe, frames, texts, picture)


def _prompts(seed: int) -> tuple[str, str]:
    return f'{PROMPT} {seed:03}', f'{NEGATIVE} {seed:03}'


def stream(setting: Setting, model: Cosmos3, recipe: RolloutRecipe, picture: np.ndarray | None,
           frames: int, seed: int) -> tuple[float, float]:
    """Seconds to the first frame and to the last, as a reader on the host sees them."""
    seen: list[float] = []
    started = time.perf_counter()
    session = RolloutSession(model, *_prompts(seed), recipe, seed, picture)

    def take(_: Frame) -> None:
        seen.append(time.perf_counter() - started)

    setting.run(session.run(frames, take))
    return seen[0], seen[-1]
