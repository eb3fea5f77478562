# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Where a work is measured: an engine, the models on it, and how large the work is."""
from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
import gc
import time
from typing import TypeVar

import torch

from ..droid.recipe import RECIPE
from ..engine.device import pick_dtype
from ..engine.engine import Engine
from ..engine.library import ModelLibrary
from ..model.checkpoint import Checkpoint, open_checkpoint
from ..model.cosmos3 import Cosmos3
from ..model.job import single
from ..tasks.policy import PolicyRecipe
from ..tasks.rollout import RolloutRecipe
from .floors import Floors
from .rates import Rates

T = TypeVar('T')

# As others measure action chunks: one picture, every step guided, rows at 24 a second.
ACTIONS = PolicyRecipe(num_frames=33, fps=24.0, steps=4, shift=5.0, guidance=3.0,
                       guidance_interval=(-1.0, 1001.0))


@dataclass(frozen=True)
class Sizes:
    """Shapes of the works; the defaults are those that others publish figures for.

    Sizes in pixels are (width, height).
    """

    droid: PolicyRecipe = RECIPE
    actions: PolicyRecipe = ACTIONS
    large: tuple[int, int] = (832, 480)
    small: tuple[int, int] = (640, 360)
    rollout: RolloutRecipe = RolloutRecipe()
    rollout_frames: int = 241
    clip_frames: int = 121
    image: RolloutRecipe = RolloutRecipe(mode='clip', width=640, height=640, shift=3.0)
    question: tuple[int, int] = (640, 480)
    tokens: int = 256
    slot: int = 4096            # tokens, the node's default
    decoded: int = 8            # latents in a run of vae_decode
    fidelity: RolloutRecipe = RolloutRecipe(width=416, height=240)
    fidelity_frames: int = 29


_SMALL = RolloutRecipe(width=64, height=32, window=2, overlap=1, history=2, steps=2)
QUICK = Sizes(
    droid=replace(RECIPE, num_frames=5, tier=256), actions=replace(ACTIONS, num_frames=5, tier=256),
    large=(320, 192), small=(160, 96), rollout=_SMALL, rollout_frames=13, clip_frames=5,
    image=replace(_SMALL, mode='clip', height=64, shift=3.0), question=(64, 64), tokens=8,
    slot=256, decoded=2, fidelity=_SMALL, fidelity_frames=5)


@dataclass
class Setting:
    """What the works of one precision share. `runs` counts measurements after one warm-up.

    `references`: of the checkpoint that makes videos and answers ('base') and of the 'policy'.
    """

    library: ModelLibrary
    engine: Engine
    references: dict[str, str]
    precision: str
    sizes: Sizes
    runs: int
    rates: Rates
    models: dict[str, Cosmos3] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return self.engine.device

    def checkpoint(self, kind: str) -> Checkpoint:
        """What is known of a checkpoint without its weights."""
        return open_checkpoint(self.references[kind], self.device)

    def floors(self, kind: str) -> Floors:
        checkpoint = self.checkpoint(kind)
        return Floors(checkpoint.config, checkpoint.vae_config, self.rates, self.precision)

    def model(self, kind: str) -> Cosmos3:
        """The checkpoint of a kind, loaded once; what is equal is shared."""
        if kind not in self.models:
            dtype = pick_dtype(self.precision, self.device)
            acquired = self.library.acquire(self.references[kind], dtype)
            self.models[kind] = acquired.result()
        return self.models[kind]

    def run(self, job: Generator[None, None, T]) -> T:
        """A job's result, from the engine."""
        return self.engine.submit(job).result()

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """A function's result, run on the engine's thread."""
        return self.run(single(function, *arguments))

    def free(self) -> None:
        """Give back what nothing holds any more."""
        gc.collect()
        if self.device.type == 'cuda':
            torch.cuda.synchronize(self.device)
            torch.cuda.empty_cache()


def seconds(device: torch.device, call: Callable[[], object]) -> float:
    """Time of a call, with the device idle before and after."""
    if device.type == 'cuda':
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    call()
    if device.type == 'cuda':
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
