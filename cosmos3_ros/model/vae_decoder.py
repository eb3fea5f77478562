# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The decoder of the Wan VAE for one latent after the other, on diffusers' weights."""
from __future__ import annotations

from diffusers.models.autoencoders.autoencoder_kl_wan import (
    WanDecoder3d,
    WanResample,
    WanResidualUpBlock,
)
import torch
from torch import Tensor
import torch.nn.functional as F

from .kernels.upsample import upsample
from .vae_encoder import unpatchify
from .vae_layers import Convolution, Features, Middle, Past, Residual, Work, convolve

# Each row of an upsampled picture sees two rows of the small one: [parity, row, kernel row].
PARITIES = ((1, 0, 0), (0, 1, 1)), ((1, 1, 0), (0, 0, 1))


class Decoder:
    """Decodes the latents of a video, one a run."""

    def __init__(self, module: WanDecoder3d):
        self.conv_in = Convolution(module.conv_in)
        self.middle = Middle(module.mid_block)
        self.blocks = [Up(block) for block in module.up_blocks]
        self.gamma = module.norm_out.gamma.data.flatten()
        self.conv_out = Convolution(module.conv_out)
        self.channels = len(self.conv_out.bias)
        # tensor cores take channels by eights
        self.conv_out.weight = F.pad(self.conv_out.weight, (0,) * 9 + (-self.channels % 8,)
                                     ).contiguous(memory_format=torch.channels_last_3d)

    def run(self, latent: Tensor, past: Past) -> Work[Tensor]:
        """[1, h, w, C] -> frames [F, 16 h, 16 w, 3]; F is 1 for the first latent, then 4."""
        frames = past.join(Features(latent))
        yield self.conv_in.work(frames)
        x = Features(self.conv_in(frames), self.conv_in.bias)
        x = yield from self.middle.run(x, past)
        for block in self.blocks:
            x = yield from block.run(x, past)
        frames = past.join(x, self.gamma, silu=True)
        del x
        yield self.conv_out.work(frames)
        return self.head(frames)

    def head(self, frames: Tensor) -> Tensor:
        """The last convolution's input [2 + T, H, W, C] -> frames [T, 2 H, 2 W, 3]."""
        y = self.conv_out(frames)[..., :self.channels]
        return unpatchify(y.float() + self.conv_out.bias)


class Up:
    """Residual blocks, then twice the height and width; the input is dealt out and added."""

    def __init__(self, block: WanResidualUpBlock):
        self.blocks = [Residual(resnet) for resnet in block.resnets]
        self.resample = None if block.upsampler is None else Resample(block.upsampler)

    def run(self, x: Features, past: Past) -> Work[Features]:
        """[T, H, W, C] -> [T', 2 H, 2 W, D]; T' is T or 2 T."""
        start, x = yield from self.blocks[0].run(x, past)
        if self.resample is None:
            del start
        for block in self.blocks[1:]:
            _, x = yield from block.run(x, past)
        if self.resample is None:
            return x
        return (yield from self.resample.run(x, start, past))


class Resample:
    """Two frames of one, where the block lengthens a video, and four pixels of one.

    A 3x3 convolution of a picture of doubled pixels is four 2x2 convolutions of the small one,
    with the weights summed that meet the same pixel: 4/9 of the work, and no large copy.
    """

    def __init__(self, module: WanResample):
        conv = module.resample[1]
        rows = torch.tensor(PARITIES, dtype=torch.float32, device=conv.weight.device)
        weight = torch.einsum('aup,bvq,ocpq->abocuv', rows, rows, conv.weight.data.float())
        self.weight = weight.flatten(0, 2).to(conv.weight.dtype).contiguous(
            memory_format=torch.channels_last)
        self.bias = conv.bias.data
        self.time = getattr(module, 'time_conv', None)

    def run(self, x: Features, start: Tensor, past: Past) -> Work[Features]:
        """x, and the block's input: [T, H, W, C] -> [T or 2 T, 2 H, 2 W, D]."""
        frames = self._frames(x, past)
        del x
        yield 2 * frames[..., 0].numel() * self.weight.numel()
        y = convolve(frames, self.weight, padding=1)
        return Features(upsample(y, self.bias, start, 1 if self.time is None else 2))

    def _frames(self, x: Features, past: Past) -> Tensor:
        if self.time is None:
            return x.sum()
        if past.first:
            past.skip(x.x)
            return x.sum()
        frames = past.join(x)
        count, height, width, channels = x.x.shape
        y = convolve(frames.view(1, -1, height * width, channels), self.time.weight[..., 0],
                     self.time.bias)
        return y.view(count, height, width, 2, channels).movedim(3, 1).flatten(0, 1)
