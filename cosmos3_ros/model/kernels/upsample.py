# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The end of an up block: four convolutions become one picture, and the shortcut is added."""
from __future__ import annotations

from torch import Tensor
import triton
import triton.language as tl

ELEMENTS = 4096     # of one program
WARPS = 8


def upsample(y: Tensor, bias: Tensor, x: Tensor, repeat: int) -> Tensor:
    """Frames [T, 2 H, 2 W, C] from the four parities of each pixel and a block's input.

    y: [T, H + 1, W + 1, 4 C]; the pixel (2 i + a, 2 j + b) is channels (2 a + b) C and on of
    y[:, i + a, j + b]. x: [T / repeat, H, W, D], or [T, H, W, D] of a video's first latent, whose
    frames are the last of each `repeat`. Each of its channels, repeated 4 C repeat / D times, is
    dealt out to (channel, time, row, column) in this order.
    """
    return (upsample_triton if y.is_cuda else upsample_torch)(y, bias, x, repeat)


def upsample_torch(y: Tensor, bias: Tensor, x: Tensor, repeat: int) -> Tensor:
    """The twin."""
    count, height, width, channels = len(y), *x.shape[1:3], len(bias)
    out = y.new_empty(count, 2 * height, 2 * width, channels)
    shortcut = x.float().repeat_interleave(4 * channels * repeat // x.shape[3], 3)
    shortcut = shortcut.view(*x.shape[:3], channels, repeat, 2, 2).movedim(4, 1)
    shortcut = shortcut[:, -(count // len(x)):].flatten(0, 1)
    for i, part in enumerate(y.float().split(channels, 3)):
        a, b = divmod(i, 2)
        out[:, a::2, b::2] = (part[:, a:a + height, b:b + width] + bias.float()
                              + shortcut[..., a, b])
    return out


def upsample_triton(y: Tensor, bias: Tensor, x: Tensor, repeat: int) -> Tensor:
    """The kernel: one program for some pixels, with all their channels."""
    frames, height, width, inputs = x.shape
    count, channels = len(y), len(bias)
    out = y.new_empty(count, 2 * height, 2 * width, channels)
    block = triton.next_power_of_2(channels)
    rows, pixels = max(1, ELEMENTS // block), out.numel() // channels
    _upsample[(triton.cdiv(pixels, rows),)](
        y, bias, x, out, pixels, height, width, C=channels, D=inputs, REPEAT=repeat,
        PER_FRAME=count // frames, ROWS=rows, BLOCK=block,
        num_warps=min(WARPS, max(1, rows * block // 512)))
    return out


@triton.jit
def _upsample(y, bias, x, out, pixels, height, width, C: tl.constexpr, D: tl.constexpr,
              REPEAT: tl.constexpr, PER_FRAME: tl.constexpr, ROWS: tl.constexpr,
              BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    channel = tl.arange(0, BLOCK)[None, :]
    inside = (row < pixels) & (channel < C)
    j = row % (2 * width)
    i = row // (2 * width) % (2 * height)
    t = row // (4 * width * height)
    parity = i % 2 * 2 + j % 2
    source = (t * (height + 1) + i // 2 + i % 2) * (width + 1) + j // 2 + j % 2
    value = tl.load(y + (source.to(tl.int64) * 4 + parity) * C + channel, inside, 0.0)
    value = value.to(tl.float32) + tl.load(bias + channel, channel < C, 0.0).to(tl.float32)
    pixel = ((t // PER_FRAME * height + i // 2) * width + j // 2).to(tl.int64)
    if C == D:      # as many channels: each is its own source
        dealt = channel
    else:
        part = (t % PER_FRAME + REPEAT - PER_FRAME) * 4 + parity
        dealt = (channel * 4 * REPEAT + part) * D // (4 * C * REPEAT)
    value += tl.load(x + pixel * D + dealt, inside, 0.0).to(tl.float32)
    tl.store(out + row.to(tl.int64) * C + channel, value.to(out.dtype.element_ty), inside)
