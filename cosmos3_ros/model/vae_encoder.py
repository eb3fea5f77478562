# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The encoder of the Wan VAE for one picture, on the weights of diffusers' module."""
from __future__ import annotations

from diffusers.models.autoencoders.autoencoder_kl_wan import (
    AvgDown3D,
    WanEncoder3d,
    WanResidualDownBlock,
)
import torch
from torch import Tensor
import torch.nn.functional as F

from .job import finish
from .vae_layers import Convolution, Features, Middle, Residual, convolve

PATCH = 2


class Encoder:
    """Encodes one picture.

    The network is causal in time and a first frame has no past: layers over three frames act in
    space alone, those that shorten a clip do nothing.
    """

    def __init__(self, module: WanEncoder3d):
        self.conv_in = Convolution(module.conv_in, picture=True)
        self.blocks = [Down(block) for block in module.down_blocks]
        self.middle = Middle(module.mid_block, picture=True)
        self.gamma = module.norm_out.gamma.data.flatten()
        self.conv_out = Convolution(module.conv_out, picture=True)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Picture [3, H, W] -> [H / 16, W / 16, C]."""
        x = Features(self.conv_in(patchify(pixels)[None]), self.conv_in.bias)
        for block in self.blocks:
            x = block(x)
        x = finish(self.middle.run(x, None))
        y = self.conv_out(x.norm(self.gamma, silu=True)[1])
        return (y + self.conv_out.bias)[0]


class Down:
    """Residual blocks, then half the height and width; the input's mean is added."""

    def __init__(self, block: WanResidualDownBlock):
        self.blocks = [Residual(resnet, picture=True) for resnet in block.resnets]
        self.down = None
        if block.downsampler is not None:
            self.down = block.downsampler.resample[1]
            self.down.weight.data = self.down.weight.data.contiguous(
                memory_format=torch.channels_last)
        self.shortcut: AvgDown3D = block.avg_shortcut

    def __call__(self, x: Features) -> Features:
        """[1, H, W, C] -> [1, H / 2, W / 2, D]."""
        start, x = finish(self.blocks[0].run(x, None))
        for block in self.blocks[1:]:
            x = finish(block.run(x, None))[1]
        y, bias = x.sum(), None
        if self.down is not None:
            y = convolve(F.pad(y, (0, 0, 0, 1, 0, 1)), self.down.weight, stride=2)
            bias = self.down.bias
        return Features(y, bias, average(start, self.shortcut))


def average(x: Tensor, shortcut: AvgDown3D) -> Tensor:
    """Means over groups of (channel, time, row, column): [1, H, W, C] -> [1, H / s, W / s, D].

    A first frame comes after frames of zeros where the shortcut shortens clips.
    """
    _, height, width, channels = x.shape
    time, space = shortcut.factor_t, shortcut.factor_s
    x = x.view(height // space, space, width // space, space, channels).permute(0, 2, 4, 1, 3)
    x = F.pad(x.flatten(3)[..., None, :], (0, 0, time - 1, 0))
    return x.reshape(1, *x.shape[:2], shortcut.out_channels, shortcut.group_size).mean(-1)


def patchify(pixels: Tensor) -> Tensor:
    """[3, H, W] -> [H / 2, W / 2, 12], by (colour, column, row)."""
    colours, height, width = pixels.shape
    x = pixels.view(colours, height // PATCH, PATCH, width // PATCH, PATCH)
    return x.permute(1, 3, 0, 4, 2).flatten(2)


def unpatchify(x: Tensor) -> Tensor:
    """[T, H, W, 12] -> [T, 2 H, 2 W, 3]."""
    frames, height, width, channels = x.shape
    x = x.view(frames, height, width, channels // PATCH ** 2, PATCH, PATCH)
    return x.permute(0, 1, 5, 2, 4, 3).reshape(frames, PATCH * height, PATCH * width, -1)
