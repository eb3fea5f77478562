# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The squared rectifier between the two products of a feed-forward block."""
from __future__ import annotations

import torch
from torch import Tensor
import torch.nn.functional as F
import triton
import triton.language as tl

from .quantize import FP8, LARGEST, Quantized, quantize_torch, row_warps

_BLOCK = 4096


def relu2(x: Tensor, dtype: torch.dtype) -> Tensor | Quantized:
    """max(x, 0)^2 of [N, C] in type `dtype`, for FP8 Quantized; x may be overwritten."""
    return relu2_triton(x, dtype) if x.is_cuda else relu2_torch(x, dtype)


def relu2_torch(x: Tensor, dtype: torch.dtype) -> Tensor | Quantized:
    """The twin."""
    squared = F.relu(x.float()).square()
    return quantize_torch(squared) if dtype == FP8 else squared.to(dtype)


def relu2_triton(x: Tensor, dtype: torch.dtype) -> Tensor | Quantized:
    """The kernels: in place if the type allows, or one program a row that needs its scale."""
    if dtype != FP8:
        out = x if x.dtype == dtype else torch.empty_like(x, dtype=dtype)
        _relu2[(triton.cdiv(x.numel(), _BLOCK),)](x, out, x.numel(), BLOCK=_BLOCK, num_warps=8)
        return out
    rows, width = x.shape
    out, scale = torch.empty_like(x, dtype=FP8), x.new_empty(rows, 1, dtype=torch.float32)
    block = triton.next_power_of_2(width)
    _relu2_fp8[(rows,)](x, out, scale, width, LARGEST=LARGEST, BLOCK=block,
                        num_warps=row_warps(block))
    return Quantized(out, scale)


@triton.jit
def _relu2(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.maximum(tl.load(x_ptr + place, place < size, 0.0).to(tl.float32), 0.0)
    tl.store(out_ptr + place, (x * x).to(out_ptr.dtype.element_ty), place < size)


@triton.jit
def _relu2_fp8(x_ptr, out_ptr, scale_ptr, width, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    x = tl.maximum(tl.load(x_ptr + row * width + column, inside, 0.0).to(tl.float32), 0.0)
    x *= x
    scale = tl.maximum(tl.max(x) / LARGEST, 1e-12)
    tl.store(scale_ptr + row, scale)
    x = tl.minimum(x / scale, LARGEST)
    tl.store(out_ptr + row * width + column, x.to(out_ptr.dtype.element_ty), inside)
