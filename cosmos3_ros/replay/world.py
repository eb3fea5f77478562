# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A video imagined from a recorded picture, against the frames that were recorded after it."""
from __future__ import annotations

from dataclasses import asdict, replace
import time

import cv2
import numpy as np

from cosmos3_ros.engine.device import pick_device, pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.sensing.images import to_rgb
from cosmos3_ros.tasks.canvas import cover
from cosmos3_ros.tasks.rollout import Frame, RolloutRecipe, RolloutSession, to_images

from .bag import Bag, BagError
from .setup import Setup

MULTIPLE = 16           # of the pictures' sides, in pixels
SHARPEST = 99.0         # dB; the PSNR of equal frames, which has no bound


def run(bag: str, checkpoint: str, setup: Setup, camera: str, frames: int, recipe: RolloutRecipe,
        prompt: str, seed: int, device: str, precision: str) -> dict:
    """Imagine `frames` frames from a camera's first picture, at that camera's rate and size.

    Raises BagError if the recording is shorter.
    """
    place, started = pick_device(device), time.monotonic()
    with Bag(bag) as opened:
        stamps, recorded = _recorded(opened, setup, camera, frames)
    height, width = (side // MULTIPLE * MULTIPLE for side in recorded[0].shape[:2])
    fps = float(np.clip((len(stamps) - 1) / (stamps[-1] - stamps[0]) * 1e9, 1, 60))
    recipe = replace(recipe, width=width, height=height, fps=fps)
    imagined: list[Frame] = []
    with Engine(place) as engine:
        model = ModelLibrary(engine).acquire(checkpoint, pick_dtype(precision, place)).result()
        session = RolloutSession(model, prompt, '', recipe, seed, recorded[0])
        engine.submit(session.run(frames, imagined.append), task='world_model').result()
    truth = [to_images(cover(picture, height, width)[:, None])[0] for picture in recorded]
    images = [frame.image for frame in imagined]
    windows = np.array([frame.window for frame in imagined])
    return {'format': 'cosmos3-replay-world/1', 'bag': opened.name,
            'settings': {'checkpoint': checkpoint, 'camera': camera, 'prompt': prompt,
                         'seed': seed, 'recipe': asdict(recipe)},
            'scores': compare(images, truth, windows),
            'timing': {'wall_s': time.monotonic() - started}}


def compare(imagined: list[np.ndarray], recorded: list[np.ndarray], windows: np.ndarray) -> dict:
    """Figures by frame of the horizon; `frozen_psnr` is that of a video which stays at frame 0.

    `drift`: mean distance of the channels' means, 0 to 255. `seam`: see `seam`.
    """
    pairs = list(zip(imagined, recorded))
    return {'psnr': [psnr(a, b) for a, b in pairs], 'ssim': [ssim(a, b) for a, b in pairs],
            'drift': [float(np.abs(a.mean((0, 1)) - b.mean((0, 1))).mean()) for a, b in pairs],
            'frozen_psnr': [psnr(recorded[0], b) for b in recorded],
            'seam': seam(imagined, windows)}


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """Peak signal to noise, dB, of uint8 pictures; SHARPEST for equal ones."""
    error = float(np.mean((a.astype(np.float64) - b) ** 2))
    return SHARPEST if error == 0 else min(SHARPEST, 10 * np.log10(255 ** 2 / error))


def ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Structural similarity of the luma (Wang et al. 2004): Gaussian window, sigma 1.5, 11 px."""
    x, y = (cv2.cvtColor(one, cv2.COLOR_RGB2GRAY).astype(np.float64) for one in (a, b))

    def blur(values):
        return cv2.GaussianBlur(values, (11, 11), 1.5)[5:-5, 5:-5]
    mean_x, mean_y = blur(x), blur(y)
    var_x, var_y = blur(x * x) - mean_x ** 2, blur(y * y) - mean_y ** 2
    both = blur(x * y) - mean_x * mean_y
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    top = (2 * mean_x * mean_y + c1) * (2 * both + c2)
    return float(np.mean(top / ((mean_x ** 2 + mean_y ** 2 + c1) * (var_x + var_y + c2))))


def seam(frames: list[np.ndarray], windows: np.ndarray) -> float | None:
    """Mean change from frame to frame at window borders over that elsewhere; 1 shows no seam.

    None without a border, or where nothing changes elsewhere.
    """
    changes = np.array([np.abs(b.astype(np.int16) - a).mean() for a, b in zip(frames, frames[1:])])
    border = np.diff(windows) != 0
    if not border.any() or border.all() or changes[~border].mean() == 0:
        return None
    return float(changes[border].mean() / changes[~border].mean())


def verdict(result: dict) -> str:
    """One line: the last frame, against a video that stands still."""
    figures = result['scores']
    return (f'{result["bag"]}: after {len(figures["psnr"])} frames PSNR '
            f'{figures["psnr"][-1]:.1f} dB, a frozen picture {figures["frozen_psnr"][-1]:.1f}; '
            f'SSIM {figures["ssim"][-1]:.2f}')


def _recorded(bag: Bag, setup: Setup, camera: str, count: int) -> tuple[list[int], list]:
    topic = setup.streams(bag, time.monotonic).cameras[camera].topic
    stamps, pictures = [], []
    for _, at, message in bag.messages([topic]):
        stamp = message.header.stamp
        stamps.append(stamp.sec * 10**9 + stamp.nanosec or at)
        pictures.append(to_rgb(message))
        if len(pictures) == count:
            return stamps, pictures
    raise BagError(f'bag {bag.path}: {camera} has {len(pictures)} pictures, wanted {count}: ask '
                   'for fewer frames')
