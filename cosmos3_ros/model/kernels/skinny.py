# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Linear layers of one decode step: a few rows, so that reading the weight is all the time.

Each program reads its rows of the weight once. What stands around a layer is done on the way: the
scale of the RMS norm before it, relu squared, the residual after it, and what the next norm needs.
A normed input comes as `x * norm weight` with sums of squares of x, one for each block of columns,
so that nothing is normed twice: the row's scale is applied to the product. The sums have as many
blocks as the kernel that wrote them.
"""
from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor
import torch.nn.functional as F
import triton
import triton.language as tl

from .chain import chained, let_next_start, wait_for_last


class After(IntEnum):
    """What follows the product."""

    NOTHING = 0
    RELU2 = 1
    RESIDUAL = 2        # add to the stream, and prepare the next norm
    LIKELIEST = 3       # only the largest output of each block and its index are kept


@dataclass(frozen=True)
class Shape:
    """How a kernel cuts a layer: `block_n` rows of the weight a program, `block_k` at a time."""

    block_n: int
    block_k: int
    warps: int
    stages: int

    def fitting(self, outputs: int, inputs: int) -> Shape:
        """The same, with blocks that divide a smaller layer."""
        return Shape(min(self.block_n, outputs & -outputs), min(self.block_k, inputs & -inputs),
                     self.warps, self.stages)


@dataclass(frozen=True)
class Stream:
    """The residual stream of a step, in three parts that one kernel leaves to the next.

    `x`: [R, hidden]; `normed`: [R, hidden], x times the weight of the next norm; `squares`:
    fp32 [R, blocks], sums of squares of x, whose total gives the scale of the norm.
    """

    x: Tensor
    normed: Tensor
    squares: Tensor
    eps: float

    @property
    def block(self) -> int:
        """Columns that one sum of squares covers."""
        return self.x.shape[1] // self.squares.shape[1]

    def scale(self) -> Tensor:
        """[R, 1] fp32."""
        return torch.rsqrt(self.squares.sum(1, keepdim=True) / self.x.shape[1] + self.eps)

    def put(self, x: Tensor, norm: Tensor) -> None:
        """Take the next x, before a norm of this weight."""
        rows = len(x)
        self.x[:rows] = x
        self.normed[:rows] = (x.float() * norm.float()).to(x.dtype)
        self.squares[:rows] = x.float().square().unflatten(1, (-1, self.block)).sum(2)


@triton.jit
def _linear(x, weight, scale, squares, norm, y, normed, squares_out, indices, rows, eps,
            N: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr, PARTS2: tl.constexpr,
            SCALED: tl.constexpr, NORMED: tl.constexpr, AFTER: tl.constexpr, R: tl.constexpr,
            BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, CHAINED: tl.constexpr):
    if CHAINED:
        let_next_start()
    block = tl.program_id(0)
    n = block * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    r = tl.arange(0, R)
    own = weight + n[:, None].to(tl.int64) * K
    here = (r < rows)[None, :]
    at = r[None, :] * N + n[:, None]
    # One row: everything is loaded before the sum across warps, whose barriers a load would wait
    # for. More rows: nothing takes registers from the product.
    if R == 1:
        factor, following = _of_outputs(scale, norm, n, SCALED, AFTER)
        w = tl.load(own + k[None, :], eviction_policy='evict_first')
        if CHAINED:
            wait_for_last()                 # nothing above depends on it
        each, before = _of_rows(squares, y, at, r, rows, here, PARTS, PARTS2, NORMED, AFTER)
        sums = w.to(tl.float32) * tl.load(x + k).to(tl.float32)[None, :]
        for start in tl.range(BK, K, BK, num_stages=STAGES):
            w = tl.load(own + start + k[None, :], eviction_policy='evict_first')
            part = tl.load(x + start + k)
            sums += w.to(tl.float32) * part.to(tl.float32)[None, :]
        acc = tl.sum(sums, 1)[:, None]
    else:
        acc = tl.zeros([BN, R], tl.float32)
        for start in tl.range(0, K, BK, num_stages=STAGES):
            w = tl.load(own + start + k[None, :], eviction_policy='evict_first')
            part = tl.load(x + r[None, :] * K + start + k[:, None])
            acc = tl.dot(w.to(x.dtype.element_ty), part, acc, input_precision='ieee')
        factor, following = _of_outputs(scale, norm, n, SCALED, AFTER)
        each, before = _of_rows(squares, y, at, r, rows, here, PARTS, PARTS2, NORMED, AFTER)
    if SCALED:
        acc *= factor[:, None]
    if NORMED:
        acc *= tl.rsqrt(tl.sum(each, 1) / K + eps)[None, :]
    if AFTER == 1:
        acc = tl.maximum(acc, 0.0)
        acc = acc * acc
    if AFTER == 2:
        kind: tl.constexpr = y.dtype.element_ty
        added = (acc.to(kind).to(tl.float32) + before.to(tl.float32)).to(kind)
        tl.store(y + at, added, mask=here)
        wide = added.to(tl.float32)
        tl.store(normed + at, (wide * following.to(tl.float32)[:, None]).to(kind), mask=here)
        tl.store(squares_out + r * (N // BN) + block, tl.sum(wide * wide, 0), mask=r < rows)
    elif AFTER == 3:
        best, place = tl.max(acc, 0, return_indices=True)
        tl.store(y + r * (N // BN) + block, best, mask=r < rows)
        tl.store(indices + r * (N // BN) + block, place + block * BN, mask=r < rows)
    else:
        tl.store(y + at, acc.to(y.dtype.element_ty), mask=here)


@triton.jit
def _of_outputs(scale, norm, n, SCALED: tl.constexpr, AFTER: tl.constexpr):
    """Scale of each output, and its weight in the next norm; anything where there is none."""
    return tl.load(scale + n) if SCALED else n, tl.load(norm + n) if AFTER == 2 else n


@triton.jit
def _of_rows(squares, y, at, r, rows, here, PARTS: tl.constexpr, PARTS2: tl.constexpr,
             NORMED: tl.constexpr, AFTER: tl.constexpr):
    """Sums of squares of each row, and what the product is added to, if anything."""
    p = tl.arange(0, PARTS2)
    each = tl.load(squares + r[:, None] * PARTS + p[None, :], other=0.0,
                   mask=(p < PARTS)[None, :] & (r < rows)[:, None]) if NORMED else p
    return each, tl.load(y + at, mask=here, other=0.0) if AFTER == 2 else at


def linear(x: Tensor | Stream, weight: Tensor, scale: Tensor | None, rows: int, y: Tensor,
           shape: Shape, after: After = After.NOTHING, norm: Tensor | None = None,
           stream: Stream | None = None, indices: Tensor | None = None) -> None:
    """The first `rows` of x [R, K], or of a normed stream, times weight [N, K] transposed.

    `scale`: fp32 [N], of a weight in fp8. x has 1 row, or 16 or 32 that can be read. The product
    goes to y [R, N]; after RESIDUAL into `stream`, prepared for a norm of weight `norm`; after
    LIKELIEST y and `indices` are [R, N / block_n].
    """
    normed = isinstance(x, Stream)
    values = x.normed if normed else x
    (n, k), parts = weight.shape, x.squares.shape[1] if normed else 1
    if after is After.RESIDUAL:
        assert stream.block == shape.block_n, 'the stream has room for sums of other blocks'
        y = stream.x
    padded = 1 if rows == 1 else 16 if rows <= 16 else 32
    _linear[(n // shape.block_n,)](
        values, weight, scale, x.squares if normed else None, norm, y,
        stream.normed if stream else None, stream.squares if stream else None, indices, rows,
        x.eps if normed else 0.0,
        N=n, K=k, PARTS=parts, PARTS2=triton.next_power_of_2(parts), SCALED=scale is not None,
        NORMED=normed, AFTER=int(after), R=padded, BN=shape.block_n, BK=shape.block_k,
        STAGES=shape.stages, num_warps=shape.warps, **chained(values.device, rows))


def linear_twin(x: Tensor | Stream, weight: Tensor, scale: Tensor | None,
                after: After = After.NOTHING) -> Tensor:
    """What `linear` computes before the residual, in fp32: [R, N]."""
    wide = weight.float() if scale is None else weight.float() * scale[:, None]
    product = F.linear((x.normed if isinstance(x, Stream) else x).float(), wide)
    if isinstance(x, Stream):
        product = product * x.scale()
    return F.relu(product).square() if after is After.RELU2 else product
