# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A residual addition and the norm that follows it."""
from __future__ import annotations

import torch
from torch import Tensor
import triton
import triton.language as tl

from .quantize import FP8, LARGEST, Quantized, quantize_torch, row_warps


def add_norm(x: Tensor, y: Tensor | None, weight: Tensor, eps: float,
             dtype: torch.dtype) -> Tensor | Quantized:
    """Add y to the residual stream x, in place, and return its RMS norm times `weight`.

    x: fp32 [N, C]; y: [N, C] or None. The norm has type `dtype`; for FP8 it is Quantized.
    """
    if x.is_cuda:
        return add_norm_triton(x, y, weight, eps, dtype)
    return add_norm_torch(x, y, weight, eps, dtype)


def add_norm_torch(x: Tensor, y: Tensor | None, weight: Tensor, eps: float,
                   dtype: torch.dtype) -> Tensor | Quantized:
    """The twin."""
    if y is not None:
        x += y
    normed = torch.nn.functional.rms_norm(x, weight.shape, weight.float(), eps)
    return quantize_torch(normed) if dtype == FP8 else normed.to(dtype)


def add_norm_triton(x: Tensor, y: Tensor | None, weight: Tensor, eps: float,
                    dtype: torch.dtype) -> Tensor | Quantized:
    """The kernel: one program a row."""
    rows, width = x.shape
    out = torch.empty_like(x, dtype=dtype)
    scale = x.new_empty(rows, 1) if dtype == FP8 else x
    block = triton.next_power_of_2(width)
    _add_norm[(rows,)](x, x if y is None else y, weight, out, scale, width, eps,
                       HAS_Y=y is not None, FP8=dtype == FP8, LARGEST=LARGEST, BLOCK=block,
                       num_warps=row_warps(block))
    return Quantized(out, scale) if dtype == FP8 else out


@triton.jit
def _add_norm(x_ptr, y_ptr, weight_ptr, out_ptr, scale_ptr, width, eps, HAS_Y: tl.constexpr,
              FP8: tl.constexpr, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    x = tl.load(x_ptr + row * width + column, inside, 0.0)
    if HAS_Y:
        x += tl.load(y_ptr + row * width + column, inside, 0.0).to(tl.float32)
        tl.store(x_ptr + row * width + column, x, inside)
    weight = tl.load(weight_ptr + column, inside, 0.0).to(tl.float32)
    normed = x * tl.rsqrt(tl.sum(x * x) / width + eps) * weight
    if FP8:
        scale = tl.maximum(tl.max(tl.abs(normed)) / LARGEST, 1e-12)
        tl.store(scale_ptr + row, scale)
        normed = tl.clamp(normed / scale, -LARGEST, LARGEST)
    tl.store(out_ptr + row * width + column, normed.to(out_ptr.dtype.element_ty), inside)
