# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Streamed video: time to the first frame, frames per second, and where the time goes."""
from __future__ import annotations

import time

import numpy as np
import torch

from ..model.cosmos3 import Cosmos3
from ..tasks.rollout import Frame, RolloutRecipe, RolloutSession
from .report import Clock, Row


@torch.inference_mode()
def measure(model: Cosmos3, precision: str, runs: int, frames: int,
            recipe: RolloutRecipe) -> list[Row]:
    """Rows of a rollout of so many frames from a picture; one shorter run warms up."""
    picture = np.random.default_rng(0).integers(0, 256, (480, 832, 3), np.uint8)
    _stream(model, recipe, picture, 4 * (recipe.window - 1) + 1)
    if model.device.type == 'cuda':
        torch.cuda.reset_peak_memory_stats(model.device)
    streams = [_stream(model, recipe, picture, frames) for _ in range(runs)]
    work, shape = f'rollout_{recipe.mode}', (
        f'{frames} frames {recipe.width}x{recipe.height}, {recipe.steps} steps, '
        f'guidance {recipe.guidance:g}')
    rows = [Row(work, shape, precision, 'first_frame_s', 's', tuple(s[0] for s in streams)),
            Row(work, shape, precision, 'frames_per_s', '1/s',
                tuple(frames / s[1] for s in streams)),
            *_parts(model, recipe, picture, work, shape, precision)]
    if model.device.type == 'cuda':
        peak = torch.cuda.max_memory_allocated(model.device) / 1e9
        rows.append(Row(work, shape, precision, 'peak_memory_gb', 'GB', (peak,)))
    return rows


def _stream(model: Cosmos3, recipe: RolloutRecipe, picture: np.ndarray,
            frames: int) -> tuple[float, float]:
    """Seconds to the first frame and to the last, as a reader on the host sees them."""
    session = RolloutSession(model, 'A robot arm picks up a banana.', 'blurry', recipe, 0, picture)
    seen: list[float] = []
    started = time.perf_counter()

    def take(_: Frame) -> None:
        seen.append(time.perf_counter() - started)

    for _ in session.run(frames, take):
        pass
    return seen[0], seen[-1]


def _parts(model: Cosmos3, recipe: RolloutRecipe, picture: np.ndarray, work: str, shape: str,
           precision: str) -> list[Row]:
    """Medians of a denoise step, a commit pass and a decoded latent, over two windows."""
    session = RolloutSession(model, 'A robot arm picks up a banana.', 'blurry', recipe, 0, picture)
    denoise: list[float] = []
    commit: list[float] = []
    decode: list[float] = []
    clock = Clock(model.device)
    passes = 0 if recipe.mode != 'kv' else 1 if recipe.guidance == 1 else 2
    for _ in range(2):
        windows = session.windows
        steps, _ = clock.drain(session.run(session.window_frames, lambda frame: None))
        latents = len(steps) - 1 - recipe.steps - passes
        assert session.windows == windows + 1 and latents > 0
        denoise += steps[:recipe.steps]
        commit += steps[recipe.steps:recipe.steps + passes]
        # the first decode may finish a commit; the last entry is the end of the job
        decode += steps[recipe.steps + passes:-1]
    parts = {'denoise_step_ms': denoise, 'commit_pass_ms': commit, 'decode_latent_ms': decode}
    return [Row(work, shape, precision, metric, 'ms', tuple(1e3 * value for value in values))
            for metric, values in parts.items() if values]
