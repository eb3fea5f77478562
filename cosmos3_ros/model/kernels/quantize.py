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


def quantize(x: Tensor) -> Quantized:
    """The largest value of each row [N, C] becomes the largest of the type."""
    return quantize_triton(x) if x.is_cuda else quantize_torch(x)


def quantize_torch(x: Tensor) -> Quantized:
    """The twin."""
    scale = (x.float().abs().amax(-1, keepdim=True) / LARGEST).clamp(min=1e-12)
    return Quantized((x.float() / scale).clamp(-LARGEST, LARGEST).to(FP8), scale)


def quantize_triton(x: Tensor) -> Quantized:
    """The kernel: one program a row."""
    rows, width = x.shape
    out, scale = torch.empty_like(x, dtype=FP8), x.new_empty(rows, 1, dtype=torch.float32)
    block = triton.next_power_of_2(width)
    _quantize[(rows,)](x, out, scale, width, LARGEST=LARGEST, BLOCK=block,
                       num_warps=row_warps(block))
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
