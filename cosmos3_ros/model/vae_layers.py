# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The layers of the Wan VAE on frames that are stored with their channels last: [T, H, W, C].

A convolution leaves its bias to whatever reads its output (`Features`), so that everything
between two convolutions is one pass over memory. Layers that do much work are generators: before
each convolution they yield how many floating-point operations it takes.
"""
from __future__ import annotations

from collections.abc import Generator, Iterable
import math
from typing import NamedTuple, TypeVar

from diffusers.models.autoencoders.autoencoder_kl_wan import (
    WanAttentionBlock,
    WanMidBlock,
    WanResidualBlock,
)
import torch
from torch import Tensor, nn
import torch.nn.functional as F

from .kernels.frame_norm import frame_norm

Result = TypeVar('Result')
Work = Generator[int, None, Result]


class Features(NamedTuple):
    """Frames [T, H, W, C] that are still to be summed: x + bias + residual."""

    x: Tensor
    bias: Tensor | None = None
    residual: Tensor | None = None

    def norm(self, gamma: Tensor | None, silu: bool = False) -> tuple[Tensor, Tensor]:
        """The sum, and its norm [T, H, W, C]."""
        total, out = self._total(), torch.empty_like(self.x)
        frame_norm(self.x, out, bias=self.bias, residual=self.residual, gamma=gamma, silu=silu,
                   total=None if total is self.x else total)
        return total, out

    def sum(self) -> Tensor:
        """The frames."""
        if self._total() is self.x:
            return self.x
        return self.norm(None)[1]

    def _total(self) -> Tensor:
        alone = self.bias is None and self.residual is None
        return self.x if alone else torch.empty_like(self.x)


class Past:
    """The last two input frames of every layer that reaches back in time, in their order.

    One latent passes once: `before` is what was kept when the latent before it had passed,
    nothing for a video's first; `kept` is what there is to keep afterwards.
    """

    def __init__(self, before: Iterable[Tensor] = ()):
        before = list(before)
        self.first = not before
        self.kept: list[Tensor] = []
        self._before = iter(before)

    def join(self, features: Features, gamma: Tensor | None = None, silu: bool = False,
             total: Tensor | None = None) -> Tensor:
        """The sum's norm after the frames before it: [2 + T, H, W, C].

        Of a video's first latent, T is 1 and one frame of zeros comes before.
        """
        x, bias, residual = features
        past = None if self.first else next(self._before)
        lead = 1 if past is None else 2
        out = x.new_empty(lead + len(x), *x.shape[1:])
        recent = out if past is None else torch.empty_like(past)
        frame_norm(x, out, bias=bias, residual=residual, gamma=gamma, silu=silu, total=total,
                   past=past, recent=None if recent is out else recent)
        self.kept.append(recent)
        return out

    def join_and_sum(self, features: Features, gamma: Tensor, silu: bool) -> tuple[Tensor, Tensor]:
        """The sum alone [T, H, W, C], and what `join` gives."""
        total = features._total()
        return total, self.join(features, gamma, silu, None if total is features.x else total)

    def skip(self, x: Tensor) -> None:
        """Keep zeros for a layer that sees nothing of the first latent. x: [1, H, W, C]."""
        self.kept.append(x.new_zeros(2, *x.shape[1:]))


class Convolution:
    """A causal convolution over 3 frames and 3x3 pixels, without its bias.

    The layer's weight is laid out anew: channels last, and frames first where `picture` says that
    only the last frame's slice will be used.
    """

    def __init__(self, layer: nn.Conv3d, picture: bool = False):
        inner, outer = ((2, 0, 3, 4, 1), (1, 4, 0, 2, 3)) if picture else (
            (0, 2, 3, 4, 1), (0, 4, 1, 2, 3))
        layer.weight.data = layer.weight.data.permute(inner).contiguous().permute(outer)
        self.weight, self.bias = layer.weight.data, layer.bias.data

    def work(self, frames: Tensor) -> int:
        """Operations for frames with their past [2 + T, H, W, C], or without one [1 or 2, ...]."""
        new, reach = (len(frames) - 2, 3) if len(frames) > 2 else (1, 1)
        return 2 * new * frames.shape[1] * frames.shape[2] * self.weight[:, :, :reach].numel()

    def __call__(self, frames: Tensor) -> Tensor:
        """[2 + T, H, W, C] -> [T, H, W, O].

        One frame, or one after a frame of zeros, has no past: only the kernel's last slice
        counts, a third of the work.
        """
        if len(frames) < 3:
            return convolve(frames[-1:], self.weight[:, :, -1], padding=1)
        y = F.conv3d(frames[None].permute(0, 4, 1, 2, 3), self.weight, padding=(0, 1, 1))
        return y.permute(0, 2, 3, 4, 1)[0].contiguous()


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1,
             padding: int = 0) -> Tensor:
    """Convolution in space: [N, H, W, C] -> [N, H', W', O]."""
    weight = weight.contiguous(memory_format=torch.channels_last)
    y = F.conv2d(x.permute(0, 3, 1, 2), weight, bias, stride, padding)
    return y.permute(0, 2, 3, 1).contiguous()


class Pointwise:
    """A convolution over single pixels."""

    def __init__(self, layer: nn.Conv2d | nn.Conv3d):
        self.weight, self.bias = layer.weight.data.flatten(1), layer.bias.data

    def __call__(self, x: Tensor, bias: bool = True) -> Tensor:
        """[..., C] -> [..., O]."""
        return F.linear(x, self.weight, self.bias if bias else None)


class Residual:
    """Two convolutions, each after norm and SiLU, and the input added."""

    def __init__(self, block: WanResidualBlock, picture: bool = False):
        self.gammas = [norm.gamma.data.flatten() for norm in (block.norm1, block.norm2)]
        self.conv1 = Convolution(block.conv1, picture)
        self.conv2 = Convolution(block.conv2, picture)
        self.shortcut, self.bias = None, self.conv2.bias
        if not isinstance(block.conv_shortcut, nn.Identity):
            self.shortcut = Pointwise(block.conv_shortcut)
            self.bias = self.bias.float() + self.shortcut.bias.float()

    def run(self, x: Features, past: Past | None) -> Work[tuple[Tensor, Features]]:
        """The input's sum, and the block's output; `past` is None for a picture."""
        if past is None:
            total, frames = x.norm(self.gammas[0], silu=True)
        else:
            total, frames = past.join_and_sum(x, self.gammas[0], silu=True)
        yield self.conv1.work(frames)
        hidden = Features(self.conv1(frames), self.conv1.bias)
        if past is None:
            frames = hidden.norm(self.gammas[1], silu=True)[1]
        else:
            frames = past.join(hidden, self.gammas[1], silu=True)
        del x, hidden
        yield self.conv2.work(frames)
        y = self.conv2(frames)
        return total, Features(y, self.bias, self.shortcut(total, bias=False)
                               if self.shortcut else total)


class Attention:
    """Attention of one head among the pixels of a frame."""

    def __init__(self, block: WanAttentionBlock):
        self.gamma = block.norm.gamma.data.flatten()
        self.qkv, self.out = Pointwise(block.to_qkv), Pointwise(block.proj)

    def __call__(self, x: Features) -> Features:
        """[T, H, W, C] -> the same."""
        total, normed = x.norm(self.gamma)
        query, key, value = self.qkv(normed.flatten(1, 2)).chunk(3, -1)
        scores = query @ key.transpose(1, 2)
        weights = (scores.float() / math.sqrt(query.shape[-1])).softmax(-1)
        out = self.out(weights.to(value.dtype) @ value, bias=False)
        return Features(out.view_as(total), self.out.bias, total)


class Middle:
    """The innermost block: residual, attention, residual."""

    def __init__(self, block: WanMidBlock, picture: bool = False):
        self.first, self.last = (Residual(resnet, picture) for resnet in block.resnets)
        self.attention = Attention(block.attentions[0])

    def run(self, x: Features, past: Past | None) -> Work[Features]:
        """[T, H, W, C] -> the same."""
        _, x = yield from self.first.run(x, past)
        _, x = yield from self.last.run(self.attention(x), past)
        return x
