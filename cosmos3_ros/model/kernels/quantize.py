# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows in 8-bit floating point, each with a scale of its own."""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
import triton
import triton.language as tl

FP8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FP8).max


class Quantized(NamedTuple):
    """`values` fp8 [N, C] times `scale` fp32 [N, 1]."""

    values: Tensor
    scale: Tensor


def quantize(*parts: Tensor) -> Quantized:
    """The largest value of each row becomes the largest of the type.

    Parts [N, C] come one behind the other.
    """
    return quantize_triton(*parts) if parts[0].is_cuda else quantize_torch(*parts)


def quantize_torch(*parts: Tensor) -> Quantized:
    """The twin."""
    x = torch.cat(parts).float()
    scale = (x.abs().amax(-1, keepdim=True) / LARGEST).clamp(min=1e-12)
    return Quantized((x / scale).clamp(-LARGEST, LARGEST).to(FP8), scale)


def quantize_triton(*parts: Tensor) -> Quantized:
    """The kernel: one program a row."""
    rows, width = sum(map(len, parts)), parts[0].shape[1]
    out = parts[0].new_empty(rows, width, dtype=FP8)
    scale = parts[0].new_empty(rows, 1, dtype=torch.float32)
    block, start = triton.next_power_of_2(width), 0
    for part in parts:
        end = start + len(part)
        _quantize[(len(part),)](part, out[start:end], scale[start:end], width, LARGEST=LARGEST,
                                BLOCK=block, num_warps=row_warps(block))
        start = end
    return Quantized(out, scale)


def row_warps(block: int) -> int:
    """Warps for a program that holds a row of so many values."""
    return max(1, min(8, block // 512))


@triton.jit
def _quantize(x_ptr, out_ptr, scale_ptr, width, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    x = tl.load(x_ptr + row * width + column, inside, 0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x)) / LARGEST, 1e-12)
    tl.store(scale_ptr + row, scale)
    x = tl.clamp(x / scale, -LARGEST, LARGEST)
    tl.store(out_ptr + row * width + column, x.to(out_ptr.dtype.element_ty), inside)
