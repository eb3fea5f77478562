# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Three cameras as the one picture that the policy was trained on."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from PIL import Image

from .observation import check_pictures

CAMERA_SIZE = (360, 640)                # height, width of each camera's letterbox
COMPOSED_SIZE = (540, 640)


def compose(pictures: Mapping[str, np.ndarray]) -> np.ndarray:
    """The wrist at full size, below it the exteriors at half: uint8 [540, 640, 3] RGB.

    `pictures`: camera name -> uint8 [H, W, 3] RGB of any size. Raises ObservationError.
    """
    check_pictures(pictures)
    wrist, left, right = (
        letterbox(pictures[name]) for name in ('wrist', 'exterior_left', 'exterior_right'))
    return np.concatenate([wrist, np.concatenate([_halve(left), _halve(right)], axis=1)])


def letterbox(picture: np.ndarray, size: tuple[int, int] = CAMERA_SIZE) -> np.ndarray:
    """Scale into `size` (height, width) with the aspect kept, centred between black bars.

    The rule of openpi's `resize_with_pad`: Pillow's bilinear filter, sizes and margins floored.
    """
    height, width = picture.shape[:2]
    if (height, width) == size:
        return picture
    ratio = max(width / size[1], height / size[0])
    scaled_height, scaled_width = max(1, int(height / ratio)), max(1, int(width / ratio))
    scaled = Image.fromarray(picture).resize((scaled_width, scaled_height), Image.BILINEAR)
    top, left = (size[0] - scaled_height) // 2, (size[1] - scaled_width) // 2
    framed = np.zeros((*size, 3), np.uint8)
    framed[top:top + scaled_height, left:left + scaled_width] = scaled
    return framed


def _halve(picture: np.ndarray) -> np.ndarray:
    """Bilinear by half without antialias is the mean of 2x2 pixels; the fraction is cut off."""
    wide = picture.astype(np.uint16)
    total = wide[::2, ::2] + wide[1::2, ::2] + wide[::2, 1::2] + wide[1::2, 1::2]
    return (total >> 2).astype(np.uint8)
