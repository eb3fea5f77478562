# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Action chunks, from pictures in host memory to actions in host memory."""
from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import time

import numpy as np

from ..droid.compose import COMPOSED_SIZE
from ..droid.observation import CAMERAS, Observation
from ..droid.recipe import request
from ..tasks.canvas import fit_canvas
from ..tasks.policy import PolicyRecipe, PolicyRequest, policy
from ..tasks.sampler import flow_schedule
from .report import Row
from .setting import Setting

INSTRUCTION = 'Pick up the banana and place it in the bowl'
REPEATS = 4         # chunks are short: so many times the runs of longer works
IN_FLIGHT = 2
CHUNKS = 8          # of each run with two in flight

Ask = Callable[[int], PolicyRequest]


def observation(seed: int) -> Observation:
    """A scene of noise, three cameras of 640x360."""
    random = np.random.default_rng(seed)
    pictures = {name: random.integers(0, 256, (360, 640, 3), np.uint8) for name in CAMERAS}
    return Observation(INSTRUCTION, pictures, random.normal(size=7), 0.0)


def droid(setting: Setting) -> list[Row]:
    """A chunk by the DROID recipe: three cameras, guidance on the first step alone."""
    return [_latency(setting, 'policy_droid', ask_droid(setting))]


def actions(setting: Setting, large: bool) -> list[Row]:
    """A chunk as others measure it: one picture, every step guided."""
    if large:
        return [_latency(setting, 'policy_832x480', _ask_actions(setting, setting.sizes.large))]
    return [_latency(setting, 'policy_640x360', _ask_actions(setting, setting.sizes.small))]


def two_in_flight(setting: Setting) -> list[Row]:
    """Actions a second with two clients, each of which waits for its chunk before it asks anew."""
    return [_rate(setting, 'policy_two_in_flight', _ask_actions(setting, setting.sizes.large)),
            _rate(setting, 'policy_two_in_flight_droid', ask_droid(setting))]


def ask_droid(setting: Setting) -> Ask:
    """Makes the request for a scene of noise with a seed."""
    seen = observation(0)
    return lambda seed: replace(request(seen, seed), recipe=setting.sizes.droid)


def _ask_actions(setting: Setting, size: tuple[int, int]) -> Ask:
    picture = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    recipe = setting.sizes.actions
    state = np.zeros(recipe.action_width, np.float32)
    return lambda seed: PolicyRequest(picture, INSTRUCTION, state, seed, recipe)


def _latency(setting: Setting, work: str, ask: Ask) -> Row:
    model = setting.model('policy')

    def take(seed: int) -> float:
        started = time.perf_counter()
        setting.run(policy(model, ask(seed)))
        return time.perf_counter() - started

    for seed in range(2):
        take(seed)
    runs = tuple(1e3 * take(2 + seed) for seed in range(REPEATS * setting.runs))
    return Row(work, _shape(ask(0)), setting.precision, 'latency_ms', 'ms', runs,
               1e3 * _floor(setting, ask(0)))


def _rate(setting: Setting, work: str, ask: Ask) -> Row:
    model = setting.model('policy')

    def client(number: int) -> int:
        return sum(len(setting.run(policy(model, ask(100 * number + seed))).actions)
                   for seed in range(CHUNKS // IN_FLIGHT))

    def take() -> float:
        started = time.perf_counter()
        with ThreadPoolExecutor(IN_FLIGHT) as clients:
            made = sum(clients.map(client, range(IN_FLIGHT)))
        return made / (time.perf_counter() - started)

    take()
    runs = tuple(take() for _ in range(setting.runs))
    rows = ask(0).recipe.num_frames - 1
    return Row(work, f'{IN_FLIGHT} clients, {_shape(ask(0))}', setting.precision, 'actions_per_s',
               '1/s', runs, rows / _floor(setting, ask(0)))


def _floor(setting: Setting, asked: PolicyRequest) -> float:
    canvas = fit_canvas(asked.picture, asked.recipe.tier)
    tokenizer = setting.checkpoint('policy').tokenizer
    texts = len(tokenizer.encode(asked.prompt)), len(tokenizer.encode(''))
    return setting.floors('policy').chunk(asked.recipe, canvas.image.shape[:2],
                                          canvas.latent_size, texts)


def _shape(asked: PolicyRequest) -> str:
    recipe = asked.recipe
    return (f'{_size(asked.picture)} picture, {recipe.num_frames} frames at {recipe.fps:g}/s, '
            f'{recipe.num_frames - 1} actions, {recipe.steps} steps, {_forwards(recipe)} '
            'forwards, prompt cached')


def _size(picture: np.ndarray) -> str:
    size = f'{picture.shape[1]}x{picture.shape[0]}'
    return f'{size} composed' if picture.shape[:2] == COMPOSED_SIZE else size


def _forwards(recipe: PolicyRecipe) -> int:
    low, high = recipe.guidance_interval
    return sum(1 + (low < timestep < high)
               for timestep in flow_schedule(recipe.steps, recipe.shift)[1])
