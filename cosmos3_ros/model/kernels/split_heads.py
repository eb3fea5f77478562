# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""From one joint projection to normed, rotated queries, and to keys and values in their cache."""
from __future__ import annotations

import torch
from torch import Tensor
import triton
import triton.language as tl


def split_heads(qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor,
                sin: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Norm and rotate the heads of a pass; returns its queries, [N, H, D].

    qkv: [N, (H + 2 K) D], queries, keys and values; q_weight, k_weight: [D], of RMS norms;
    cos, sin: fp32 [N, D], both halves equal; keys, values: [N, K, D], written. Queries have the
    type of the keys.
    """
    if qkv.is_cuda:
        return split_heads_triton(qkv, q_weight, k_weight, eps, cos, sin, keys, values)
    return split_heads_torch(qkv, q_weight, k_weight, eps, cos, sin, keys, values)


def split_heads_torch(qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor,
                      sin: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The twin."""
    kv_heads, size = keys.shape[1:]
    heads = qkv.float().unflatten(-1, (-1, size))
    q, k, v = heads.split([heads.shape[1] - 2 * kv_heads, kv_heads, kv_heads], 1)
    keys.copy_(_norm_rotate(k, k_weight, eps, cos, sin))
    values.copy_(v)
    return _norm_rotate(q, q_weight, eps, cos, sin).to(keys.dtype)


def _norm_rotate(x: Tensor, weight: Tensor, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
    x = torch.nn.functional.rms_norm(x, weight.shape, weight.float(), eps)
    first, second = x.chunk(2, dim=-1)
    return x * cos[:, None] + torch.cat([-second, first], dim=-1) * sin[:, None]


def split_heads_triton(qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor,
                       sin: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The kernel: one program a token, all its heads at once."""
    kv_heads, size = keys.shape[1:]
    total = qkv.shape[1] // size
    heads = total - 2 * kv_heads
    q = keys.new_empty(len(qkv), heads, size)
    _split_heads[(len(qkv),)](
        qkv, q_weight, k_weight, cos, sin, q, keys, values, eps, heads, kv_heads,
        keys.stride(0), values.stride(0), HALF=size // 2,
        HEADS=triton.next_power_of_2(total), num_warps=4)
    return q


@triton.jit
def _split_heads(qkv_ptr, q_weight_ptr, k_weight_ptr, cos_ptr, sin_ptr, q_ptr, keys_ptr,
                 values_ptr, eps, heads, kv_heads, keys_stride, values_stride,
                 HALF: tl.constexpr, HEADS: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, HEADS)[:, None]
    column = tl.arange(0, HALF)[None]
    total = heads + 2 * kv_heads
    source = qkv_ptr + token * total * 2 * HALF + head * 2 * HALF + column
    first = tl.load(source, head < total, 0.0).to(tl.float32)
    second = tl.load(source + HALF, head < total, 0.0).to(tl.float32)

    is_query, is_value = head < heads, head >= heads + kv_heads
    mean = tl.sum(first * first + second * second, 1)[:, None] / (2 * HALF)
    scale = tl.rsqrt(mean + eps)
    weight = tl.where(is_query, tl.load(q_weight_ptr + column).to(tl.float32),
                      tl.load(k_weight_ptr + column).to(tl.float32))
    weight_second = tl.where(is_query, tl.load(q_weight_ptr + HALF + column).to(tl.float32),
                             tl.load(k_weight_ptr + HALF + column).to(tl.float32))
    a, b = first * scale * weight, second * scale * weight_second
    cos = tl.load(cos_ptr + token * 2 * HALF + column)
    sin = tl.load(sin_ptr + token * 2 * HALF + column)
    first = tl.where(is_value, first, a * cos - b * sin)
    second = tl.where(is_value, second, b * cos + a * sin)

    kind = q_ptr.dtype.element_ty
    target = q_ptr + token * heads * 2 * HALF + head * 2 * HALF + column
    tl.store(target, first.to(kind), is_query)
    tl.store(target + HALF, second.to(kind), is_query)
    is_key = (head >= heads) & (head < heads + kv_heads)
    target = keys_ptr + token * keys_stride + (head - heads) * 2 * HALF + column
    tl.store(target, first.to(kind), is_key)
    tl.store(target + HALF, second.to(kind), is_key)
    kind = values_ptr.dtype.element_ty
    target = values_ptr + token * values_stride + (head - heads - kv_heads) * 2 * HALF + column
    tl.store(target, first.to(kind), is_value & (head < total))
    tl.store(target + HALF, second.to(kind), is_value & (head < total))
