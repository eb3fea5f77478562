# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The few picture sizes that the network was trained on, and how a picture comes onto one."""
from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np
import torch
from torch import Tensor
import torch.nn.functional as F

LATENT_STRIDE = 16  # pixels of a side that one latent stands for

# Tier -> aspect (width,height) -> (height, width) in pixels.
CANVASES = {
    256: {'1,1': (256, 256), '4,3': (256, 320), '3,4': (320, 256),
          '16,9': (192, 320), '9,16': (320, 192)},
    480: {'1,1': (640, 640), '4,3': (544, 736), '3,4': (736, 544),
          '16,9': (480, 832), '9,16': (832, 480)},
}


@dataclass(frozen=True)
class Canvas:
    """A picture at the top left of a canvas, the rest mirrored from it.

    `image`: uint8 [H, W, 3] RGB. `content`: (height, width) of the picture on it, in pixels.
    """

    image: np.ndarray
    content: tuple[int, int]

    @property
    def latent_size(self) -> tuple[int, int]:
        """(height, width) of the content in whole latents; the rest of the latents is cropped."""
        height, width = self.content
        return height // LATENT_STRIDE, width // LATENT_STRIDE

    def pixels(self, device: torch.device | str = 'cpu') -> Tensor:
        """The whole canvas as the VAE takes it: float32 [3, H, W] in [-1, 1]."""
        image = torch.from_numpy(self.image).to(device)
        return image.permute(2, 0, 1).contiguous().float() / 127.5 - 1


def canvas_size(height: int, width: int, tier: int) -> tuple[int, int]:
    """(height, width) of the tier's canvas whose height/width is nearest to the picture's.

    Raises ValueError for an unknown tier.
    """
    if tier not in CANVASES:
        raise ValueError(f'canvas tier {tier}: wanted one of {sorted(CANVASES)}')
    return min(CANVASES[tier].values(), key=lambda size: abs(height / width - size[0] / size[1]))


def aspect(height: int, width: int) -> str:
    """Name of a canvas's aspect, for example '4,3'. Raises ValueError if it is no canvas."""
    for canvases in CANVASES.values():
        for name, size in canvases.items():
            if size == (height, width):
                return name
    raise ValueError(f'{width}x{height} (width x height) is no canvas; canvas_size() gives one')


def fit_canvas(picture: np.ndarray, tier: int) -> Canvas:
    """Put a picture on its canvas: shrunk if too large, never enlarged, padded right and below.

    `picture`: uint8 [H, W, 3] RGB. Padding mirrors the content; where a pad is as long as the
    content, which has not that much to mirror, its last row and column are repeated instead.
    Raises ValueError for another type or shape, or an unknown tier.
    """
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise ValueError(f'picture: found {picture.dtype} {list(picture.shape)}, '
                         'wanted uint8 [H, W, 3] RGB')
    size = canvas_size(*picture.shape[:2], tier)
    content = _content_size(picture.shape[:2], size)
    if content != picture.shape[:2]:
        picture = _shrink(picture, content)
    pads = [whole - part for whole, part in zip(size, content)]
    mode = 'reflect' if all(pad < part for pad, part in zip(pads, content)) else 'edge'
    return Canvas(np.pad(picture, ((0, pads[0]), (0, pads[1]), (0, 0)), mode), content)


def _content_size(picture: tuple[int, int], canvas: tuple[int, int]) -> tuple[int, int]:
    scale = min(canvas[1] / picture[1], canvas[0] / picture[0], 1.0)
    return int(scale * picture[0] + 0.5), int(scale * picture[1] + 0.5)


def _shrink(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Bicubic with antialias in float32, rounded back: uint8 arithmetic differs by a level."""
    planes = torch.from_numpy(picture).permute(2, 0, 1)[None].float()
    planes = F.interpolate(planes, size, mode='bicubic', antialias=True)[0]
    return planes.clamp(0, 255).round().byte().permute(1, 2, 0).contiguous().numpy()


def cover(picture: np.ndarray, height: int, width: int) -> Tensor:
    """Scale a picture to cover a size and crop its centre: float32 [3, H, W] in [-1, 1].

    `picture`: uint8 [H, W, 3] RGB. Antialiased bilinear, rounded to 8 bits, as the world model's
    first frame was prepared in training.
    """
    planes = torch.from_numpy(picture).permute(2, 0, 1)[None].float()
    scale = max(width / planes.shape[3], height / planes.shape[2])
    size = [math.ceil(scale * side) for side in planes.shape[2:]]
    planes = F.interpolate(planes, size, mode='bilinear', antialias=True)[0]
    top, left = round((size[0] - height) / 2), round((size[1] - width) / 2)
    planes = planes[:, top:top + height, left:left + width]
    return planes.round().clamp(0, 255) / 127.5 - 1
