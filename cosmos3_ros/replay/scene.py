# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a world model is asked to imagine of a bag, and the recorded frames to compare with."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
import time

import numpy as np

from cosmos3_ros.droid import prompt as droid_prompt
from cosmos3_ros.droid.actions import state_row
from cosmos3_ros.droid.compose import COMPOSED_SIZE, compose
from cosmos3_ros.droid.observation import CAMERAS
from cosmos3_ros.droid.recipe import RECIPE, STEP
from cosmos3_ros.model.cosmos3 import Cosmos3
from cosmos3_ros.sensing.images import to_rgb
from cosmos3_ros.tasks.canvas import LATENT_STRIDE, canvas_size, cover, fit_canvas
from cosmos3_ros.tasks.dynamics import DynamicsRecipe, DynamicsSession
from cosmos3_ros.tasks.rollout import RolloutRecipe, RolloutSession, to_images

from .bag import Bag, BagError
from .motion import Motion
from .setup import Setup

COMPOSED = 'composed'   # the view of all three cameras in one picture


@dataclass(frozen=True)
class Scene:
    """`stamps` (ns) and `recorded` (RGB, of the video's size) of every frame, the first given.

    `segments` go to the session's `run` one after the other.
    """

    stamps: list[int]
    recorded: list[np.ndarray]
    prompt: str
    recipe: RolloutRecipe | DynamicsRecipe
    segments: list
    session: Callable[[Cosmos3], RolloutSession | DynamicsSession]


def prompted(bag: Bag, setup: Setup, camera: str, frames: int, recipe: RolloutRecipe,
             prompt: str, seed: int) -> Scene:
    """A video that a prompt leads, at the camera's rate and size. Raises BagError."""
    topic = setup.streams(bag, time.monotonic).cameras[camera].topic
    stamps, pictures = [], []
    for _, at, message in bag.messages([topic]):
        stamps.append(_stamp(message, at))
        pictures.append(to_rgb(message))
        if len(pictures) == frames:
            break
    else:
        raise BagError(f'bag {bag.path}: {camera} has {len(pictures)} pictures, wanted {frames}: '
                       'ask for fewer frames')
    height, width = (side // LATENT_STRIDE * LATENT_STRIDE for side in pictures[0].shape[:2])
    fps = (frames - 1) / max(stamps[-1] - stamps[0], 1) * 1e9
    recipe = replace(recipe, width=width, height=height, fps=float(np.clip(round(fps, 3), 1, 60)))
    recorded = [to_images(cover(picture, height, width)[:, None])[0].numpy()
                for picture in pictures]
    return Scene(stamps, recorded, prompt, recipe, [frames],
                 lambda model: RolloutSession(model, prompt, '', recipe, seed, pictures[0]))


def driven(bag: Bag, setup: Setup, camera: str, frames: int, recipe: DynamicsRecipe,
           prompt: str, seed: int) -> Scene:
    """A video that the recorded motion leads, a frame a row; `camera` may be COMPOSED.

    Row 0 of a chunk is the state at its first frame; the row of each further frame is what was
    commanded one frame earlier, as the policy's rows are due. Raises BagError.
    """
    names = CAMERAS if camera == COMPOSED else (camera,)
    topics = {name: setup.streams(bag, time.monotonic).cameras[name].topic for name in names}
    commands = Motion(bag, setup)
    states = Motion(bag, replace(setup, reference_topic='')) if setup.reference_topic else commands
    start = max(_first(bag, topics), int(commands.times[0]), int(states.times[0]))
    moments = start + np.round(np.arange(frames) * STEP * 1e9).astype(np.int64)
    views = _nearest(bag, topics, moments)
    pictures = [compose(view) if camera == COMPOSED else view[camera] for view in views]
    if camera == COMPOSED and prompt:
        prompt = droid_prompt.prompt(prompt, canvas_size(*COMPOSED_SIZE, recipe.tier))
    segments = _rows(bag, commands.at(moments), states.at(moments))
    return Scene(moments.tolist(), [_cropped(picture, recipe.tier) for picture in pictures],
                 prompt, recipe, segments,
                 lambda model: DynamicsSession(model, prompt, recipe, seed, pictures[0]))


def _rows(bag: Bag, commands: np.ndarray, states: np.ndarray) -> list[np.ndarray]:
    """Chunks of the network's rows, float32 [R, 8], each from the last frame of the one before."""
    chunks, size = [], RECIPE.num_frames
    for first in range(0, len(commands) - 1, size - 1):
        last = min(first + size, len(commands)) - 1
        values = np.concatenate([states[first:first + 1], commands[first:last]])
        if not np.isfinite(values).all():
            raise BagError(f'bag {bag.path}: the recorded motion ends within the '
                           f'{len(commands)} frames: ask for fewer')
        chunks.append(np.stack([state_row(row[:-1], row[-1]) for row in values]))
    return chunks


def _first(bag: Bag, topics: dict[str, str]) -> int:
    """When every camera has a picture (ns). Raises BagError."""
    found: dict[str, int] = {}
    for topic, at, message in bag.messages(topics.values()):
        found.setdefault(topic, _stamp(message, at))
        if len(found) == len(set(topics.values())):
            return max(found.values())
    raise BagError(f'bag {bag.path}: no picture on '
                   f'{", ".join(sorted(set(topics.values()) - set(found)))}')


def _nearest(bag: Bag, topics: dict[str, str], moments: np.ndarray) -> list[dict]:
    """By moment, the nearest picture of every camera. Raises BagError where none is near."""
    step = STEP * 1e9
    best: list[dict] = [{} for _ in moments]       # topic -> (distance, message)
    for topic, at, message in bag.messages(topics.values()):
        stamp = _stamp(message, at)
        before = int((stamp - moments[0]) // step)
        for index in (before, before + 1):
            if 0 <= index < len(moments):
                distance = abs(stamp - int(moments[index]))
                if topic not in best[index] or distance < best[index][topic][0]:
                    best[index][topic] = distance, message
        if at > moments[-1] + 1e9:
            break
    for index, found in enumerate(best):
        for name, topic in topics.items():
            if topic not in found or found[topic][0] > step:
                raise BagError(f'bag {bag.path}: {name} has no picture {index * STEP:.2f} s after '
                               f'the first, wanted {len(moments)} frames at 15 Hz: ask for fewer')
    return [{name: to_rgb(found[topic][1]) for name, topic in topics.items()} for found in best]


def _cropped(picture: np.ndarray, tier: int) -> np.ndarray:
    """A picture as the video shows it: shrunk to its canvas, cut to whole latents."""
    canvas = fit_canvas(picture, tier)
    height, width = (side * LATENT_STRIDE for side in canvas.latent_size)
    return canvas.image[:height, :width]


def _stamp(message, at: int) -> int:
    stamp = message.header.stamp
    return stamp.sec * 10**9 + stamp.nanosec or at
