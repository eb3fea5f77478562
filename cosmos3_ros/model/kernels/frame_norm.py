# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What lies between two convolutions of the VAE: additions, norm, SiLU and the frames before."""
from __future__ import annotations

import math

import torch
from torch import Tensor
import triton
import triton.language as tl

ELEMENTS = 4096     # of one program
WARPS = 8


def frame_norm(x: Tensor, out: Tensor, *, bias: Tensor | None = None,
               residual: Tensor | None = None, gamma: Tensor | None = None, silu: bool = False,
               total: Tensor | None = None, past: Tensor | None = None,
               recent: Tensor | None = None) -> None:
    """Write the input of a convolution: x + bias + residual [T, H, W, C], normed, after `past`.

    out: [L + T, H, W, C], L frames of `past` or zeros, then the new ones. The norm is
    v / |v| * sqrt(C) * gamma over the channels (none without gamma), then SiLU if wanted.
    total: where x + bias + residual goes. past: [L, H, W, C]. recent: [2, H, W, C], where the
    last two frames of `out` go once more.
    """
    call = frame_norm_triton if x.is_cuda else frame_norm_torch
    call(x, out, bias=bias, residual=residual, gamma=gamma, silu=silu, total=total, past=past,
         recent=recent)


def frame_norm_torch(x: Tensor, out: Tensor, *, bias: Tensor | None = None,
                     residual: Tensor | None = None, gamma: Tensor | None = None,
                     silu: bool = False, total: Tensor | None = None, past: Tensor | None = None,
                     recent: Tensor | None = None) -> None:
    """The twin."""
    lead, value = len(out) - len(x), x.float()
    for term in (bias, residual):
        value = value if term is None else value + term.float()
    if total is not None:
        total.copy_(value)
    if gamma is not None:
        value = torch.nn.functional.normalize(value, dim=-1) * math.sqrt(x.shape[-1]) * gamma
    if silu:
        value = torch.nn.functional.silu(value)
    out[lead:] = value
    out[:lead] = 0 if past is None else past
    if recent is not None:
        recent.copy_(out[-2:])


def frame_norm_triton(x: Tensor, out: Tensor, *, bias: Tensor | None = None,
                      residual: Tensor | None = None, gamma: Tensor | None = None,
                      silu: bool = False, total: Tensor | None = None, past: Tensor | None = None,
                      recent: Tensor | None = None) -> None:
    """The kernel: one program for some pixels, with all their channels."""
    frames, height, width, channels = x.shape
    block = triton.next_power_of_2(channels)
    rows = max(1, ELEMENTS // block)
    count, plane = len(out) * height * width, height * width
    _frame_norm[(triton.cdiv(count, rows),)](
        x, out, bias, residual, gamma, total, past, recent, count, (len(out) - frames) * plane,
        (len(out) - 2) * plane, math.sqrt(channels), C=channels, SILU=silu, ROWS=rows,
        BLOCK=block, num_warps=min(WARPS, max(1, rows * block // 512)))


@triton.jit
def _frame_norm(x, out, bias, residual, gamma, total, past, recent, count, lead, recent_start,
                scale, C: tl.constexpr, SILU: tl.constexpr, ROWS: tl.constexpr,
                BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    channel = tl.arange(0, BLOCK)[None, :]
    inside = (row < count) & (channel < C)
    new = inside & (row >= lead)
    source = (row - lead).to(tl.int64) * C + channel
    value = tl.load(x + source, new, 0.0).to(tl.float32)
    if bias is not None:
        value += tl.load(bias + channel, channel < C, 0.0).to(tl.float32)
    if residual is not None:
        value += tl.load(residual + source, new, 0.0).to(tl.float32)
    if total is not None:
        tl.store(total + source, value.to(total.dtype.element_ty), new)
    if gamma is not None:
        masked = tl.where(channel < C, value, 0.0)
        length = tl.sqrt(tl.sum(masked * masked, 1))[:, None]
        value = value / tl.maximum(length, 1e-12) * scale
        value *= tl.load(gamma + channel, channel < C, 0.0).to(tl.float32)
    if SILU:
        value = value * tl.sigmoid(value)
    value = tl.where(new, value, 0.0)
    target = row.to(tl.int64) * C + channel
    if past is not None:
        before = inside & (row < lead)
        value = tl.where(before, tl.load(past + target, before, 0.0).to(tl.float32), value)
    value = value.to(out.dtype.element_ty)
    tl.store(out + target, value, inside)
    if recent is not None:
        kept = (row - recent_start).to(tl.int64) * C + channel
        tl.store(recent + kept, value, inside & (row >= recent_start))
