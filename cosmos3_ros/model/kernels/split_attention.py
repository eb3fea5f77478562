# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Attention of a few queries to many keys, which are split between programs.

The library's kernel gives a multiprocessor 128 queries of one head, with all their keys. Where
that makes 3.03 rounds of a device, the fourth costs as much as the others: the few queries that
are left over are done here instead, in a fraction of a round.
"""
from __future__ import annotations

from functools import lru_cache
import math
from typing import NamedTuple

import torch
from torch import Tensor
import torch.nn.functional as F
import triton
import triton.language as tl

LIBRARY_ROWS = 128      # queries of one head that the library's kernel takes at a time
MOST_LEFT_OVER = 192    # queries; more of them take as long here as a round of the library's


class Shape(NamedTuple):
    """Queries and keys of a program's products; `programs`: wanted a multiprocessor."""

    rows: int
    keys: int
    warps: int
    stages: int
    programs: int


SMALL, LARGE = Shape(64, 64, 4, 3, 1), Shape(64, 64, 4, 3, 2)


def whole_rounds(rows: int, heads: int, processors: int) -> int:
    """How many of the queries to leave to the library: all, unless few are left over."""
    rounds = -(-rows // LIBRARY_ROWS) * heads // processors
    fitting = rounds * processors // heads * LIBRARY_ROWS
    return fitting if 0 < fitting < rows <= fitting + MOST_LEFT_OVER else rows


@lru_cache
def processors(device: torch.device) -> int:
    """Multiprocessors of a device."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def split_attention_torch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The twin: q [N, H, D], k and v [M, K, D] -> [N, H * D], each K read by H / K heads."""
    out = F.scaled_dot_product_attention(
        q.transpose(0, 1)[None].float(), k.transpose(0, 1)[None].float(),
        v.transpose(0, 1)[None].float(), enable_gqa=True)
    return out[0].transpose(0, 1).flatten(1).to(q.dtype)


def split_attention_triton(q: Tensor, k: Tensor, v: Tensor, processors: int) -> Tensor:
    """The kernels, for a device of so many multiprocessors. Tokens may be strided, heads not."""
    count, heads, size = q.shape
    keys, kv_heads = k.shape[:2]
    group = heads // kv_heads
    shape = SMALL if count * group <= SMALL.rows else LARGE
    tiles = triton.cdiv(count * group, shape.rows)
    splits = max(1, shape.programs * processors // (tiles * kv_heads))
    each = triton.cdiv(triton.cdiv(keys, splits), shape.keys) * shape.keys
    splits = triton.cdiv(keys, each)        # none is empty
    sums = torch.empty(splits, count, heads, size, dtype=torch.float32, device=q.device)
    peaks, weights = torch.empty(2, splits, count, heads, dtype=torch.float32, device=q.device)
    out = q.new_empty(count, heads * size)
    _attend[(tiles, kv_heads, splits)](
        q, k, v, sums, peaks, weights, count, keys, each, q.stride(0), k.stride(0), v.stride(0),
        1.44269504 / math.sqrt(size), HEADS=heads, G=group, D=size, ROWS=shape.rows,
        KEYS=shape.keys, STAGES=shape.stages, num_warps=shape.warps)
    _join[(count, heads)](sums, peaks, weights, out, splits, count * heads, D=size,
                          SPLITS=triton.next_power_of_2(splits), num_warps=4)
    return out


@triton.jit
def _attend(q, k, v, sums, peaks, weights, count, keys, each, q_stride, k_stride, v_stride, scale,
            HEADS: tl.constexpr, G: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
            KEYS: tl.constexpr, STAGES: tl.constexpr):
    tile, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    kind: tl.constexpr = q.dtype.element_ty
    row = tile * ROWS + tl.arange(0, ROWS)      # of the queries that share a key head
    here = row < count * G
    token, head = row // G, kv_head * G + row % G
    d = tl.arange(0, D)
    queries = tl.load(q + token[:, None].to(tl.int64) * q_stride + head[:, None] * D + d[None, :],
                      mask=here[:, None], other=0.0)
    peak = tl.full([ROWS], float('-inf'), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, D], tl.float32)
    start = split * each
    stop = tl.minimum(start + each, keys)
    for first in tl.range(start, stop, KEYS, num_stages=STAGES):
        t = first + tl.arange(0, KEYS)
        inside = t < stop
        at = t.to(tl.int64)
        key = tl.load(k + at[None, :] * k_stride + kv_head * D + d[:, None],
                      mask=inside[None, :], other=0.0)
        value = tl.load(v + at[:, None] * v_stride + kv_head * D + d[None, :],
                        mask=inside[:, None], other=0.0)
        score = tl.dot(queries, key, input_precision='ieee') * scale
        score = tl.where(inside[None, :], score, float('-inf'))
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        acc = acc * shrink[:, None] + tl.dot(share.to(kind), value, input_precision='ieee')
        peak = higher
    own = (split * count + token) * HEADS + head
    tl.store(sums + own[:, None].to(tl.int64) * D + d[None, :], acc, mask=here[:, None])
    tl.store(peaks + own, peak, mask=here)
    tl.store(weights + own, total, mask=here)


@triton.jit
def _join(sums, peaks, weights, out, splits, pairs, D: tl.constexpr, SPLITS: tl.constexpr):
    own = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    s = tl.arange(0, SPLITS)
    there = s < splits
    d = tl.arange(0, D)
    at = s * pairs + own
    peak = tl.load(peaks + at, mask=there, other=float('-inf'))
    weight = tl.load(weights + at, mask=there, other=0.0)
    factor = tl.exp2(peak - tl.max(peak, 0))
    some = tl.load(sums + at[:, None].to(tl.int64) * D + d[None, :], mask=there[:, None],
                   other=0.0)
    joined = tl.sum(some * factor[:, None], 0) / tl.sum(weight * factor, 0)
    tl.store(out + own.to(tl.int64) * D + d, joined.to(out.dtype.element_ty))
