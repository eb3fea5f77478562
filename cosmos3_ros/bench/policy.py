# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The DROID policy, from pictures in host memory to actions in host memory."""
from __future__ import annotations

import numpy as np
import torch

from ..droid.observation import CAMERAS, Observation
from ..droid.recipe import RECIPE, request
from ..model.cosmos3 import Cosmos3
from ..tasks.policy import policy
from .report import Clock, Row


def observation(seed: int) -> Observation:
    """A scene of noise, three cameras of 640x360."""
    random = np.random.default_rng(seed)
    pictures = {name: random.integers(0, 256, (360, 640, 3), np.uint8) for name in CAMERAS}
    return Observation('Pick up the banana and place it in the bowl', pictures,
                       random.normal(size=7), 0.0)


@torch.inference_mode()
def measure(model: Cosmos3, precision: str, runs: int) -> list[Row]:
    """Latency of a chunk and of its parts, the instruction cached."""
    names = ['compose', 'prepare', 'encode',
             *(f'step_{i + 1}' for i in range(RECIPE.steps)), 'read_back']
    laps = [_chunk(model, seed) for seed in range(runs + 2)][2:]
    shape = f'{RECIPE.num_frames} frames of 540x640, {RECIPE.num_frames - 1} actions, 5 forwards'
    rows = [Row('policy_droid', shape, precision, 'latency_ms', 'ms',
                tuple(1e3 * sum(lap) for lap in laps))]
    return rows + [Row('policy_droid', shape, precision, f'{name}_ms', 'ms',
                       tuple(1e3 * lap[i] for lap in laps)) for i, name in enumerate(names)]


def _chunk(model: Cosmos3, seed: int) -> list[float]:
    seen = observation(seed)
    clock = Clock(model.device)
    asked = request(seen, seed)
    compose = clock.lap()
    job = policy(model, asked)
    prepare = clock.lap()
    steps, _ = clock.drain(job)
    return [compose, prepare, *steps]
