# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Attention of one new token a row to its slot of a cache, which it joins.

Rotates the new query and key, writes key and value behind what the slot holds, and attends. A
program takes a part of one slot's tokens for all query heads that share a key head, so every key
is read once; the program that ends last joins the parts. Lengths are read from the device: a
short row in a wide batch costs what it would alone.
"""
from __future__ import annotations

import math

import torch
from torch import Tensor
import triton
import triton.language as tl

from .chain import chained, let_next_start, wait_for_last

PROGRAMS = 256          # wanted in all: about two a multiprocessor
MOST_PARTS = 16         # of one row
LOWEST = tl.constexpr(-1e30)    # below every score, and finite


def parts_of(rows: int, kv_heads: int) -> int:
    """Into how many parts a row's tokens are cut."""
    wanted = max(1, PROGRAMS // (rows * kv_heads))
    return min(MOST_PARTS, 1 << (wanted.bit_length() - 1))


class Joints:
    """Room in which the parts of each row are left, for at most so many rows."""

    def __init__(self, rows: int, kv_heads: int, group: int, size: int, device: torch.device):
        parts = max(count * parts_of(count, kv_heads) for count in range(1, rows + 1)) * kv_heads
        self.sums = torch.empty(parts, group, size, device=device)
        self.peaks = torch.empty(parts, group, device=device)
        self.weights = torch.empty(parts, group, device=device)
        self.arrived = torch.zeros(rows, kv_heads, dtype=torch.int32, device=device)


@triton.jit
def _turned(source, norm, cos, sin, d, rows, eps, HALF: tl.constexpr, D: tl.constexpr,
            NORM: tl.constexpr):
    """Rotated (and, before, normed) heads at `rows` [M, 1] offsets; fp32 [M, D]."""
    other = tl.where(d < HALF, d + HALF, d - HALF)
    x = tl.load(source + rows + d[None, :]).to(tl.float32)
    partner = tl.load(source + rows + other[None, :]).to(tl.float32)
    if NORM:
        factor = tl.rsqrt(tl.sum(x * x, 1) / D + eps)[:, None]
        x = x * factor * tl.load(norm + d).to(tl.float32)[None, :]
        partner = partner * factor * tl.load(norm + other).to(tl.float32)[None, :]
    partner = tl.where((d < HALF)[None, :], -partner, partner)
    return x * cos[None, :] + partner * sin[None, :]


@triton.jit
def _attended(q, k, v, there, peak, total, acc):
    """Peak, sum of weights, and weighted sum of values, after a tile of tokens more."""
    score = tl.where(there[None, :], tl.dot(q, k, input_precision='ieee'), float('-inf'))
    higher = tl.maximum(peak, tl.max(score, 1))
    share = tl.exp2(score - higher[:, None])
    shrink = tl.exp2(peak - higher)
    total = total * shrink + tl.sum(share, 1)
    acc = acc * shrink[:, None] + tl.dot(share.to(v.dtype), v, input_precision='ieee')
    return higher, total, acc


@triton.jit
def _attend(qkv, q_norm, k_norm, keys, values, cos, sin, filled, position, active, out, sums,
            peaks, weights, arrived, slot_stride, head_stride, scale, eps,
            KV: tl.constexpr, G: tl.constexpr, G2: tl.constexpr, M: tl.constexpr,
            D: tl.constexpr, NORM: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
            STAGES: tl.constexpr, CHAINED: tl.constexpr):
    if CHAINED:
        let_next_start()
    row, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    d = tl.arange(0, D)
    m = tl.arange(0, M)
    g = tl.where(m < G, m, 0)               # rows of the padded tile repeat the first head
    count = tl.load(filled + row)
    place = tl.load(position + row)
    each = tl.maximum(tl.cdiv(tl.cdiv(count, PARTS), BLOCK) * BLOCK, BLOCK)
    used = tl.maximum(tl.cdiv(count, each), 1)
    live = (tl.load(active + row) > 0) & (part < used)
    slot = keys + row.to(tl.int64) * slot_stride + head * head_stride
    slot_v = values + row.to(tl.int64) * slot_stride + head * head_stride
    start = part * each
    stop = tl.where(live, tl.minimum(start + each, count), start)
    t = start + tl.arange(0, BLOCK)
    k = tl.load(slot + t[None, :] * D + d[:, None], mask=(t < stop)[None, :], other=0.0)
    v = tl.load(slot_v + t[:, None] * D + d[None, :], mask=(t < stop)[:, None], other=0.0)
    cos_d = tl.load(cos + place * D + d).to(tl.float32)
    sin_d = tl.load(sin + place * D + d).to(tl.float32)
    if CHAINED:
        wait_for_last()                     # all above was written in earlier steps
    if live:
        kind: tl.constexpr = keys.dtype.element_ty
        width: tl.constexpr = (KV * G + 2 * KV) * D
        heads = row * width + (head * G + g)[:, None] * D
        q = _turned(qkv, q_norm, cos_d, sin_d, d, heads, eps, D // 2, D, NORM)
        q = (q.to(kind).to(tl.float32) * (scale * 1.44269504)).to(kind)
        peak = tl.full([M], LOWEST, tl.float32)
        peak, total, acc = _attended(q, k, v, t < stop, peak, tl.zeros([M], tl.float32),
                                     tl.zeros([M, D], tl.float32))
        for first in tl.range(start + BLOCK, stop, BLOCK, num_stages=STAGES):
            t = first + tl.arange(0, BLOCK)
            k = tl.load(slot + t[None, :] * D + d[:, None], mask=(t < stop)[None, :], other=0.0)
            v = tl.load(slot_v + t[:, None] * D + d[None, :], mask=(t < stop)[:, None], other=0.0)
            peak, total, acc = _attended(q, k, v, t < stop, peak, total, acc)
        if part == 0:                       # takes the new token too
            one = tl.zeros([1], tl.int32)
            at = (row * width + (KV * G + head) * D + one)[:, None]
            k_new = tl.sum(_turned(qkv, k_norm, cos_d, sin_d, d, at, eps, D // 2, D, NORM), 0)
            k_new = k_new.to(kind)
            v_new = tl.load(qkv + row * width + (KV * G + KV + head) * D + d)
            tl.store(slot + count * D + d, k_new)
            tl.store(slot_v + count * D + d, v_new)
            score = tl.sum(q.to(tl.float32) * k_new.to(tl.float32)[None, :], 1)
            higher = tl.maximum(peak, score)
            share = tl.exp2(score - higher)
            shrink = tl.exp2(peak - higher)
            total = total * shrink + share
            acc = acc * shrink[:, None] + share[:, None] * v_new.to(tl.float32)[None, :]
            peak = higher
        target = out + row * (KV * G * D) + (head * G + m)[:, None] * D + d[None, :]
        if used == 1:
            tl.store(target, (acc / total[:, None]).to(kind), mask=(m < G)[:, None])
        else:
            pair = (row * KV + head) * PARTS
            own = (pair + part) * G + m
            tl.store(sums + own[:, None] * D + d[None, :], acc, mask=(m < G)[:, None])
            tl.store(peaks + own, peak, mask=m < G)
            tl.store(weights + own, total, mask=m < G)
            tl.debug_barrier()              # all of it is written before this part is counted
            before = tl.atomic_add(arrived + row * KV + head, 1, sem='acq_rel', scope='gpu')
            if before == used - 1:
                tl.debug_barrier()
                p = tl.arange(0, PARTS)
                h = tl.arange(0, G2)
                there = (p < used)[:, None] & (h < G)[None, :]
                at = (pair + p)[:, None] * G + h[None, :]
                top = tl.load(peaks + at, mask=there, other=LOWEST, cache_modifier='.cg')
                mass = tl.load(weights + at, mask=there, other=0.0, cache_modifier='.cg')
                some = tl.load(sums + at[:, :, None] * D + d[None, None, :],
                               mask=there[:, :, None], other=0.0, cache_modifier='.cg')
                factor = tl.exp2(top - tl.max(top, 0)[None, :])
                mass = tl.sum(mass * factor, 0)
                mixed = tl.sum(some * factor[:, :, None], 0) / tl.where(h < G, mass, 1.0)[:, None]
                tl.store(out + row * (KV * G * D) + (head * G + h)[:, None] * D + d[None, :],
                         mixed.to(kind), mask=(h < G)[:, None])
                tl.store(arrived + row * KV + head, 0)


def attend(qkv: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor, filled: Tensor,
           position: Tensor, active: Tensor, out: Tensor, joints: Joints, rows: int,
           norms: tuple[Tensor, Tensor] | None = None, eps: float = 0.0, block: int = 64,
           warps: int = 4) -> None:
    """One new token for each of the first `rows` slots.

    qkv: [R, (heads + 2 kv heads) * D], before rotation; keys, values: [slots, kv heads, length,
    D], written at column `filled`; cos, sin: [length, D], read at `position`; rows with `active`
    0 do nothing. `norms`: weights of the norms of queries and keys. `block`: tokens at a time.
    Result: out [R, heads * D].
    """
    kv, size = keys.shape[1], keys.shape[3]
    group = qkv.shape[1] // size // kv - 2
    _attend[(rows, kv, parts_of(rows, kv))](
        qkv, *(norms or (None, None)), keys, values, cos, sin, filled, position, active, out,
        joints.sums, joints.peaks, joints.weights, joints.arrived, keys.stride(0),
        keys.stride(1), 1 / math.sqrt(size), eps, KV=kv, G=group,
        G2=triton.next_power_of_2(group), M=16, D=size,
        NORM=norms is not None, PARTS=parts_of(rows, kv), BLOCK=block, STAGES=3,
        num_warps=warps, **chained(qkv.device, rows))
