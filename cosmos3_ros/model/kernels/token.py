# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The two ends of a decode step: a token becomes the stream, and outputs become a token."""
from __future__ import annotations

from torch import Tensor
import triton
import triton.language as tl

from .chain import chained, let_next_start, wait_for_last
from .skinny import Stream


@triton.jit
def _embed(tokens, table, norm, x, normed, squares, rows, WIDTH: tl.constexpr, R: tl.constexpr,
           BLOCK: tl.constexpr, CHAINED: tl.constexpr):
    if CHAINED:
        let_next_start()
    block = tl.program_id(0)
    r = tl.arange(0, R)
    n = block * BLOCK + tl.arange(0, BLOCK)
    here = (r < rows)[:, None]
    token = tl.load(tokens + r, mask=r < rows, other=0)
    value = tl.load(table + token[:, None] * WIDTH + n[None, :], mask=here, other=0.0)
    at = r[:, None] * WIDTH + n[None, :]
    wide = value.to(tl.float32)
    tl.store(x + at, value, mask=here)
    tl.store(normed + at, (wide * tl.load(norm + n).to(tl.float32)[None, :]).to(value.dtype),
             mask=here)
    tl.store(squares + r * (WIDTH // BLOCK) + block, tl.sum(wide * wide, 1), mask=r < rows)


def embed(tokens: Tensor, table: Tensor, norm: Tensor, stream: Stream, rows: int) -> None:
    """Start a stream with the embeddings of the first `rows` tokens, before a norm."""
    width = table.shape[1]
    _embed[(width // stream.block,)](
        tokens, table, norm, stream.x, stream.normed, stream.squares, rows, WIDTH=width,
        R=triton.next_power_of_2(rows), BLOCK=stream.block, num_warps=4,
        CHAINED=chained(table.device, rows)['CHAINED'])


@triton.jit
def _choose(best, indices, tokens, out, filled, position, step, active, BLOCKS: tl.constexpr,
            BLOCKS2: tl.constexpr, CHAINED: tl.constexpr):
    if CHAINED:
        let_next_start()
        wait_for_last()
    row = tl.program_id(0)
    b = tl.arange(0, BLOCKS2)
    value = tl.load(best + row * BLOCKS + b, mask=b < BLOCKS, other=float('-inf'))
    token = tl.load(indices + row * BLOCKS + tl.argmax(value, 0)).to(tl.int64)
    tl.store(tokens + row, token)
    tl.store(out + row, token)
    for counter in tl.static_range(3):
        at = (filled if counter == 0 else position if counter == 1 else step) + row
        tl.store(at, tl.load(at) + tl.load(active + row))


def choose(best: Tensor, indices: Tensor, tokens: Tensor, out: Tensor,
           counters: tuple[Tensor, Tensor, Tensor], active: Tensor, rows: int) -> None:
    """Of each row's blocks [R, blocks] the largest: its index is the next token, in both outputs.

    The counters [R] of rows with `active` 1 go on by one.
    """
    blocks = best.shape[1]
    _choose[(rows,)](best, indices, tokens, out, *counters, active, BLOCKS=blocks,
                     BLOCKS2=triton.next_power_of_2(blocks), num_warps=8,
                     **chained(best.device, rows))
