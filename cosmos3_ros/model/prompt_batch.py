# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Whole prompts that are read at once, padded to few lengths so that the work can be recorded."""
from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .job import pauses
from .kernels.add_norm import add_norm
from .kernels.place_heads import place_heads
from .layers import attend_in_each
from .processor import Prompt
from .transformer import Transformer
from .upload import upload

TOKENS_PER_UNIT = 28672     # times layers, between two yields: about 6 ms of an H200


def padded_length(tokens: int, device: torch.device) -> int:
    """Tokens that a prompt is padded to; as it is on a CPU, where nothing is recorded."""
    if device.type != 'cuda':
        return tokens
    step = 32 if tokens <= 512 else 128
    return -(-tokens // step) * step


@dataclass(frozen=True)
class PromptBatch:
    """`count` prompts of `length` tokens, padding behind each of them; N is their product.

    On the device: `ids` [N]; `positions` [3, N]; `slots`, `columns` [N], where the cache takes
    each token; `last` [count], the last token of each prompt among the N.
    """

    count: int
    length: int
    ids: Tensor
    positions: Tensor
    slots: Tensor
    columns: Tensor
    last: Tensor

    @classmethod
    def of(cls, prompts: Sequence[Prompt], slots: Sequence[int], length: int, scratch: int,
           device: torch.device) -> PromptBatch:
        """`slots`: of each prompt; `scratch`: the column that takes padding."""
        count = len(prompts)
        table = np.zeros((6, count, length), np.int64)
        ids, positions, slot, columns = table[0], table[1:4], table[4], table[5]
        columns[:] = scratch
        slot.T[:] = slots
        for row, prompt in enumerate(prompts):
            end = len(prompt.ids)
            ids[row, :end], columns[row, :end] = prompt.ids, np.arange(end)
            positions[:, row, :end] = prompt.positions
        last = [row * length + len(prompt.ids) - 1 for row, prompt in enumerate(prompts)]
        # one copy to the device
        whole = upload(torch.from_numpy(np.append(table, last)), device)
        rows = whole[:table.size].view(6, -1)
        return cls(count, length, rows[0], rows[1:4], rows[4], rows[5], whole[table.size:])


def read_prompts(network: Transformer, x: Tensor, rotary: tuple[Tensor, Tensor],
                 places: tuple[Tensor, Tensor], last: Tensor, keys: Tensor,
                 values: Tensor) -> Generator[None, None, Tensor]:
    """Job that takes prompts of one length through the understanding tower, from their starts.

    x: [N, hidden] embedded tokens; rotary: cos and sin, [N, D]; places: slots and columns, [N], of
    the caches keys and values, [layers, slots, kv heads, columns, D]; last: [prompts], the tokens
    wanted. Yields between layers; returns [prompts, hidden], before the final norm. The residual
    stream is fp32.
    """
    dtype, ends = x.dtype, pauses(len(network.und.layers), TOKENS_PER_UNIT // len(x))
    x, y = x.to(torch.float32, copy=True), None
    for index, layer in enumerate(network.und.layers):
        norm = layer.input_norm
        q, k, v = layer.attention.project(add_norm(x, y, norm.weight, norm.eps, dtype))
        place_heads(q, k, v, *rotary, *places, keys[index], values[index])
        attended = _attend(q, k, v, len(last))
        if layer is network.und.layers[-1]:
            x, attended = x[last], attended[last]       # nothing reads the others any more
        y, norm = layer.products.out(attended), layer.post_norm
        y = layer.products.feed_forward(add_norm(x, y, norm.weight, norm.eps, dtype))
        if index + 1 in ends:
            yield
    return (x + y).to(dtype)


def _attend(q: Tensor, k: Tensor, v: Tensor, count: int) -> Tensor:
    """Causal attention in each of `count` sequences of one length: [N, heads, D] -> [N, H * D]."""
    parts = (x.unflatten(0, (count, -1)) for x in (q, k, v))
    return attend_in_each(*parts, causal=True).flatten(0, 1)
