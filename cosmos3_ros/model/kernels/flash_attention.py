# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Attention of many queries to many keys, for Hopper.

A program takes 128 rows, a row being a query of one of the heads that share a key head, and all
keys. One warp fetches blocks of keys and values; two groups of warps, 64 rows each, compute. While
the tensor cores multiply with one block's values and the next one's keys, a group takes the
exponentials of what came before, as FlashAttention-3 does (Shah et al. 2024). Queries and keys may
be in 8 bits: their product then takes half as long.

Unlike the library's, it is compiled once for all lengths: a new one costs nothing.
"""
from __future__ import annotations

from functools import lru_cache
import math

import torch
from torch import Tensor
from triton import cdiv, next_power_of_2
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

HOPPER = 9              # compute capability
ROWS = gl.constexpr(64)     # of a group of warps
KEYS = 128              # of a block
STAGES = 2              # blocks that are there at a time
FP8 = torch.float8_e4m3fn
TYPES = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16, FP8: gl.float8e4nv}


def suits(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Whether the kernel is made for a device, values of a type, and heads of a size."""
    return (device.type == 'cuda' and capability(device) == HOPPER
            and dtype in (torch.bfloat16, torch.float16) and 64 <= size <= 128 and size % 8 == 0)


@lru_cache
def capability(device: torch.device) -> int:
    """Generation of a device."""
    return torch.cuda.get_device_capability(device)[0]


def flash_attention(q: Tensor, keys: Tensor, values: Tensor, out: Tensor,
                    causal: bool = False) -> None:
    """In each of n sequences: q [n, N, H, D], keys and values [n, M, K, D] -> out [n, N, H * D].

    Each K is read by H / K heads, a divisor of 64. Queries and keys: both of the values' 16-bit
    type, or both fp8. Tokens may be strided, heads and sequences not. `causal`: of M = N tokens
    each sees itself and those before it.
    """
    sequences, count, heads, size = q.shape
    kv_heads = keys.shape[2]
    group = heads // kv_heads
    grid = cdiv(count * group, 2 * ROWS.value), kv_heads, sequences
    _flash_attention[grid](
        q, _described(keys), _described(values), out, count * group, keys.shape[1], q.stride(1),
        math.log2(math.e) / math.sqrt(size), G=group, HEADS=heads, SIZE=size, STAGES=STAGES,
        CAUSAL=causal, num_warps=4)


def _described(x: Tensor) -> TensorDescriptor:
    """[n, M, K, D] as a table [n * M, K * D] that is fetched in blocks of KEYS rows.

    Where D is no power of two a block holds some of the next head too.
    """
    sequences, count, heads, size = x.shape
    block = [KEYS, next_power_of_2(size)]
    layout = gl.NVMMASharedLayout.get_default_for(block, TYPES[x.dtype])
    return TensorDescriptor(x, [sequences * count, heads * size], [x.stride(1), 1], block, layout)


@gluon.jit
def _flash_attention(q, keys, values, out, rows, count, q_stride, scale, G: gl.constexpr,
                     HEADS: gl.constexpr, SIZE: gl.constexpr, STAGES: gl.constexpr,
                     CAUSAL: gl.constexpr):
    """`rows`: queries times heads of a group; `count`: of keys; `scale`: before exp2."""
    BLOCK: gl.constexpr = keys.block_type.shape[0]
    D: gl.constexpr = keys.block_type.shape[1]
    kind: gl.constexpr = q.dtype.element_ty
    first, kv_head, sequence = gl.program_id(0) * 2 * ROWS, gl.program_id(1), gl.program_id(2)

    queries = gl.allocate_shared_memory(
        kind, [2, ROWS, D], gl.NVMMASharedLayout.get_default_for([ROWS, D], kind))
    fetched = gl.allocate_shared_memory(keys.dtype, [STAGES, BLOCK, D], keys.layout)
    fetched_values = gl.allocate_shared_memory(values.dtype, [STAGES, BLOCK, D], values.layout)
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    full_values = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    empty_values = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(full_values.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
        mbarrier.init(empty_values.index(stage), count=2)

    layout: gl.constexpr = gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0])
    d = gl.arange(0, D, layout=gl.SliceLayout(0, layout))
    q += sequence.to(gl.int64) * (rows // G) * q_stride
    for half in gl.static_range(2):
        row = first + half * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
        at = (row // G) * q_stride + (kv_head * G + row % G) * SIZE
        # zeros behind a head make nothing of what a block of keys holds of the next one
        queries.index(half).store(gl.load(
            q + at[:, None] + d[None, :], mask=(row < rows)[:, None] & (d < SIZE)[None, :],
            other=0.0))
    fence_async_shared()

    # the last block comes first: the only one that is masked
    if CAUSAL:
        seen = gl.minimum(count, (first + 2 * ROWS - 1) // G + 1)
    else:
        seen = count
    blocks = gl.cdiv(seen, BLOCK)
    out += (sequence.to(gl.int64) * (rows // G) * HEADS + kv_head * G) * SIZE
    gl.warp_specialize([
        (_attend, (queries.index(0), out, fetched, fetched_values, full, empty, full_values,
                   empty_values, blocks, count, first, rows, scale, G, HEADS, SIZE, CAUSAL)),
        (_attend, (queries.index(1), out, fetched, fetched_values, full, empty, full_values,
                   empty_values, blocks, count, first + ROWS, rows, scale, G, HEADS, SIZE,
                   CAUSAL)),
        (_fetch, (keys, values, fetched, fetched_values, full, empty, full_values, empty_values,
                  blocks, sequence * count, kv_head * SIZE)),
    ], [4, 1], [240, 24])


@gluon.jit
def _fetch(keys, values, fetched, fetched_values, full, empty, full_values, empty_values, blocks,
           start, column):
    STAGES: gl.constexpr = fetched.shape[0]
    BLOCK: gl.constexpr = fetched.shape[1]
    for index in range(blocks):
        stage, phase = index % STAGES, (index // STAGES) & 1
        first = start + (blocks - 1 - index) * BLOCK
        mbarrier.wait(empty.index(stage), phase ^ 1)
        mbarrier.expect(full.index(stage), keys.block_type.nbytes)
        tma.async_copy_global_to_shared(keys, [first, column], full.index(stage),
                                        fetched.index(stage))
        mbarrier.wait(empty_values.index(stage), phase ^ 1)
        mbarrier.expect(full_values.index(stage), values.block_type.nbytes)
        tma.async_copy_global_to_shared(values, [first, column], full_values.index(stage),
                                        fetched_values.index(stage))


@gluon.jit
def _attend(queries, out, fetched, fetched_values, full, empty, full_values, empty_values, blocks,
            count, first, rows, scale, G: gl.constexpr, HEADS: gl.constexpr, SIZE: gl.constexpr,
            CAUSAL: gl.constexpr):
    STAGES: gl.constexpr = fetched.shape[0]
    BLOCK: gl.constexpr = fetched.shape[1]
    D: gl.constexpr = fetched.shape[2]
    kind: gl.constexpr = fetched_values.dtype
    of_scores: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [4, 1], [16, BLOCK, 256 // fetched.dtype.primitive_bitwidth])
    of_out: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    of_shares: gl.constexpr = gl.DotOperandLayout(0, of_out, 2)
    by_row: gl.constexpr = gl.SliceLayout(1, of_out)
    nothing = gl.zeros([ROWS, BLOCK], gl.float32, of_scores)

    mbarrier.wait(full.index(0), 0)
    scores = warpgroup_mma(queries, fetched.index(0).permute((1, 0)), nothing, use_acc=False,
                           is_async=True)
    scores = warpgroup_mma_wait(0, deps=[scores])
    mbarrier.arrive(empty.index(0), count=1)
    key = (blocks - 1) * BLOCK + gl.arange(0, BLOCK, layout=gl.SliceLayout(0, of_scores))
    inside = (key < count)[None, :]
    if CAUSAL:
        token = (first + gl.arange(0, ROWS, layout=gl.SliceLayout(1, of_scores))) // G
        inside = inside & (key[None, :] <= token[:, None])
    scores = gl.where(inside, scores, float('-inf'))
    peak = gl.max(scores, 1) * scale
    shares = gl.exp2(scores * scale - peak[:, None])
    total = gl.sum(shares, 1)
    factors = gl.convert_layout(shares.to(kind), of_shares)
    mixed = gl.zeros([ROWS, D], gl.float32, of_out)
    for index in range(1, blocks):
        stage, phase = index % STAGES, (index // STAGES) & 1
        before, phase_before = (index - 1) % STAGES, ((index - 1) // STAGES) & 1
        mbarrier.wait(full.index(stage), phase)
        scores = warpgroup_mma(queries, fetched.index(stage).permute((1, 0)), nothing,
                               use_acc=False, is_async=True)
        mbarrier.wait(full_values.index(before), phase_before)
        mixed = warpgroup_mma(factors, fetched_values.index(before), mixed, is_async=True)
        scores = warpgroup_mma_wait(1, deps=[scores])
        mbarrier.arrive(empty.index(stage), count=1)
        higher = gl.maximum(peak, gl.max(scores, 1) * scale)
        shares = gl.exp2(scores * scale - higher[:, None])
        shrink = gl.exp2(peak - higher)
        total = total * shrink + gl.sum(shares, 1)
        peak = higher
        mixed = warpgroup_mma_wait(0, deps=[mixed])
        mbarrier.arrive(empty_values.index(before), count=1)
        factors = gl.convert_layout(shares.to(kind), of_shares)
        mixed = mixed * gl.convert_layout(shrink, by_row)[:, None]
    last = (blocks - 1) % STAGES
    mbarrier.wait(full_values.index(last), ((blocks - 1) // STAGES) & 1)
    mixed = warpgroup_mma(factors, fetched_values.index(last), mixed, is_async=True)
    mixed = warpgroup_mma_wait(0, deps=[mixed])
    mixed = mixed / gl.convert_layout(total, by_row)[:, None]

    row = first + gl.arange(0, ROWS, layout=by_row)
    d = gl.arange(0, D, layout=gl.SliceLayout(0, of_out))
    at = ((row // G) * HEADS + row % G) * SIZE
    gl.store(out + at[:, None] + d[None, :], mixed.to(out.dtype.element_ty),
             mask=(row < rows)[:, None] & (d < SIZE)[None, :])
