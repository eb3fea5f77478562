# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Rotate the heads of a pass and put its keys and values where a cache of slots wants them."""
from __future__ import annotations

import torch
from torch import Tensor
import triton
import triton.language as tl


def place_heads(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, slots: Tensor,
                columns: Tensor, keys: Tensor, values: Tensor) -> None:
    """Rotate q and k, in place; each token's k and v are written into the cache.

    q: [N, H, D]; k, v: [N, K, D], heads of a token one behind the other; cos, sin: [N, D], both
    halves equal; slots, columns: int64 [N]; keys, values: [slots, K, columns, D].
    """
    run = place_heads_triton if q.is_cuda else place_heads_torch
    run(q, k, v, cos, sin, slots, columns, keys, values)


def place_heads_torch(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, slots: Tensor,
                      columns: Tensor, keys: Tensor, values: Tensor) -> None:
    """The twin."""
    for x in (q, k):
        first, second = x.float().chunk(2, dim=-1)
        turned = torch.cat([-second, first], dim=-1)
        x.copy_(x * cos[:, None].float() + turned * sin[:, None].float())
    keys[slots, :, columns], values[slots, :, columns] = k, v


def place_heads_triton(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, slots: Tensor,
                       columns: Tensor, keys: Tensor, values: Tensor) -> None:
    """The kernel: one program a token, all its heads at once."""
    heads, kv_heads, size = q.shape[1], k.shape[1], q.shape[2]
    _place_heads[(len(q),)](
        q, k, v, cos, sin, slots, columns, keys, values, heads, kv_heads, q.stride(0),
        k.stride(0), v.stride(0), *keys.stride()[:3], HALF=size // 2,
        HEADS=triton.next_power_of_2(heads), KV_HEADS=triton.next_power_of_2(kv_heads),
        num_warps=4)


@triton.jit
def _place_heads(q_ptr, k_ptr, v_ptr, cos_ptr, sin_ptr, slots_ptr, columns_ptr, keys_ptr,
                 values_ptr, heads, kv_heads, q_stride, k_stride, v_stride, slot_stride,
                 head_stride, column_stride, HALF: tl.constexpr, HEADS: tl.constexpr,
                 KV_HEADS: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, HALF)[None]
    cos = tl.load(cos_ptr + token * 2 * HALF + d).to(tl.float32)
    sin = tl.load(sin_ptr + token * 2 * HALF + d).to(tl.float32)
    kind = q_ptr.dtype.element_ty

    head = tl.arange(0, HEADS)[:, None]
    own = q_ptr + token * q_stride + head * 2 * HALF + d
    first = tl.load(own, head < heads, 0.0).to(tl.float32)
    second = tl.load(own + HALF, head < heads, 0.0).to(tl.float32)
    tl.store(own, (first * cos - second * sin).to(kind), head < heads)
    tl.store(own + HALF, (second * cos + first * sin).to(kind), head < heads)

    head = tl.arange(0, KV_HEADS)[:, None]
    here = head < kv_heads
    target = (tl.load(slots_ptr + token) * slot_stride + head * head_stride
              + tl.load(columns_ptr + token) * column_stride + d)
    own = k_ptr + token * k_stride + head * 2 * HALF + d
    first = tl.load(own, here, 0.0).to(tl.float32)
    second = tl.load(own + HALF, here, 0.0).to(tl.float32)
    turned = (first * cos - second * sin).to(kind)
    tl.store(own, turned, here)
    tl.store(keys_ptr + target, turned, here)
    turned = (second * cos + first * sin).to(kind)
    tl.store(own + HALF, turned, here)
    tl.store(keys_ptr + target + HALF, turned, here)
    own = v_ptr + token * v_stride + head * 2 * HALF + d
    tl.store(values_ptr + target, tl.load(own, here, 0.0), here)
    tl.store(values_ptr + target + HALF, tl.load(own + HALF, here, 0.0), here)
