# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A video imagined from a recorded picture, against the frames that were recorded after it."""
from __future__ import annotations

from dataclasses import asdict, dataclass
import time

import numpy as np

from cosmos3_ros.droid.observation import CAMERAS
from cosmos3_ros.droid.recipe import RECIPE
from cosmos3_ros.engine.device import pick_device, pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.model.cosmos3 import Cosmos3
from cosmos3_ros.tasks.dynamics import DynamicsRecipe
from cosmos3_ros.tasks.rollout import Frame, RolloutRecipe

from . import frame_scores
from .bag import Bag
from .pictures import jpeg
from .scene import COMPOSED, Scene, driven, prompted
from .setup import Setup

FORMAT = 'cosmos3-replay-world/2'
SHOWN = 6               # pairs of frames in the report


@dataclass(frozen=True)
class Task:
    """What to imagine: `frames` frames (4 n + 1, with the given one) from the first picture.

    `actions`: the recorded motion leads, not the prompt alone. `camera`: '' takes the wrist, with
    actions the composed view of all three. `prompt`: '' takes the bag's first instruction.
    `steps`: denoise steps, None for the recipe's. Raises ValueError.
    """

    frames: int
    actions: bool = False
    camera: str = ''
    prompt: str = ''
    steps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.frames < 5 or self.frames % 4 != 1:
            raise ValueError(f'--imagine: found {self.frames} frames, wanted 4 n + 1, 5 or more')
        known = ('', *CAMERAS, COMPOSED) if self.actions else ('', *CAMERAS)
        if self.camera not in known:
            raise ValueError(f'--camera: found {self.camera}, wanted one of '
                             f'{", ".join(known[1:])}')

    def scene(self, bag: Bag, setup: Setup) -> Scene:
        """The frames of a bag. Raises BagError."""
        asked = {} if self.steps is None else {'steps': self.steps}
        prompt = self.prompt or _spoken(bag, setup)
        if self.actions:
            recipe = DynamicsRecipe(domain=RECIPE.domain, row_offset=RECIPE.action_offset, **asked)
            return driven(bag, setup, self.camera or COMPOSED, self.frames, recipe, prompt,
                          self.seed)
        return prompted(bag, setup, self.camera or 'wrist', self.frames, RolloutRecipe(**asked),
                        prompt, self.seed)


def run(bag: str, checkpoint: str, setup: Setup, task: Task, device: str, precision: str) -> dict:
    """Imagine and compare. Raises BagError, or ValueError for a checkpoint without actions."""
    place, started = pick_device(device), time.monotonic()
    with Bag(bag) as opened:
        scene = task.scene(opened, setup)
    imagined: list[Frame] = []
    with Engine(place) as engine:
        model = ModelLibrary(engine).acquire(checkpoint, pick_dtype(precision, place)).result()
        if task.actions:
            _check(model, checkpoint)
        session, asked = scene.session(model), time.monotonic()
        for segment in scene.segments:
            engine.submit(session.run(segment, imagined.append), task='world_model').result()
        seconds = time.monotonic() - asked
    images = [frame.image for frame in imagined]
    windows = np.array([frame.window for frame in imagined])
    camera = task.camera or (COMPOSED if task.actions else 'wrist')
    return {'format': FORMAT, 'bag': opened.name,
            'settings': {'checkpoint': checkpoint, 'device': place.type, 'precision': precision,
                         'camera': camera, 'led_by': 'actions' if task.actions else 'prompt',
                         'prompt': scene.prompt, 'seed': task.seed,
                         'recipe': asdict(scene.recipe)},
            'frames': {'stamps': scene.stamps, 'windows': windows.tolist()},
            'scores': frame_scores.score(images, scene.recorded, windows),
            'timing': {'wall_s': time.monotonic() - started,
                       'frames_per_second': len(images) / seconds},
            'drawing': {'pairs': [(int(i), jpeg(images[i]), jpeg(scene.recorded[i]))
                                  for i in _shown(len(images))]}}


def verdict(result: dict) -> str:
    """One line: the last frame, against a video that stands still."""
    figures = result['scores']
    return (f'{result["bag"]}: after {len(figures["psnr"])} frames PSNR '
            f'{figures["psnr"][-1]:.1f} dB, a frozen picture {figures["frozen_psnr"][-1]:.1f}; '
            f'SSIM {figures["ssim"][-1]:.2f}')


def _check(model: Cosmos3, checkpoint: str) -> None:
    if not model.config.action_gen:
        raise ValueError(f'checkpoint {checkpoint}: knows no actions (action_gen is false), '
                         'wanted one that does with --actions')


def _shown(frames: int) -> np.ndarray:
    """Frames for the report, evenly over the horizon, without the one that was given."""
    return np.unique(np.linspace(1, frames - 1, SHOWN).round().astype(int))


def _spoken(bag: Bag, setup: Setup) -> str:
    topic = setup.instructions(bag)
    return next((message.data.strip() for _, _, message in bag.messages([topic] if topic else [])),
                '')
