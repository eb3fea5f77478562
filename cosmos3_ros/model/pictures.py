# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures to patches, so that their bytes travel to the device and only there become fp32.

The sizes, the resizing and the numbers are those of the checkpoint's own image processor, and so
are the values, bit for bit.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from transformers import BaseImageProcessor, Cosmos3EdgeImageProcessor

from .vision import Grid


@dataclass(frozen=True)
class PatchCutter:
    """What an image processor does to a picture.

    `mean`, `std`: fp32 [3], of values from 0 to 255; `side`: pixels along a patch; `merge`:
    patches along the block that becomes one token.
    """

    processor: Cosmos3EdgeImageProcessor
    mean: Tensor
    std: Tensor
    side: int
    merge: int

    @classmethod
    def of(cls, processor: BaseImageProcessor) -> PatchCutter | None:
        """None for a processor that does something else."""
        usual = (type(processor) is Cosmos3EdgeImageProcessor and processor.do_resize
                 and processor.do_rescale and processor.do_normalize
                 and processor.temporal_patch_size == 1)
        if not usual:
            return None
        mean, std = (torch.tensor(values) * (1.0 / processor.rescale_factor)
                     for values in (processor.image_mean, processor.image_std))
        return cls(processor, mean, std, processor.patch_size, processor.merge_size)

    def on(self, device: torch.device) -> PatchCutter:
        """The same, for pictures that lie on a device."""
        return replace(self, mean=self.mean.to(device), std=self.std.to(device))

    def resized(self, picture: np.ndarray) -> Tensor:
        """A copy, uint8 [H, W, 3], of the size that is cut; ValueError for extreme shapes."""
        pixels = torch.from_numpy(picture.copy())
        one = self.processor.resize(
            pixels.permute(2, 0, 1)[None], size=self.processor.size,
            resample=self.processor.resample, factor=self.side * self.merge, temporal_factor=1)
        return one[0].permute(1, 2, 0).contiguous()

    def grid(self, pixels: Tensor) -> Grid:
        """Rows and columns of patches of a resized picture."""
        return pixels.shape[0] // self.side, pixels.shape[1] // self.side

    def patches(self, pixels: Tensor) -> Tensor:
        """Resized pictures of one size, uint8 [n, H, W, 3] -> fp32 [n, patches, values].

        Patches of a block lie together; values are ordered by row, column and channel.
        """
        rows, columns = self.grid(pixels[0])
        blocks = pixels.view(len(pixels), rows // self.merge, self.merge, self.side,
                             columns // self.merge, self.merge, self.side, 3)
        patches = blocks.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(-1, self.side, self.side, 3)
        normed = patches.float().sub_(self.mean).div_(self.std)
        return normed.view(len(pixels), rows * columns, -1)
