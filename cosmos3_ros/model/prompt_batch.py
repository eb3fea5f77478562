# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Whole prompts that are read at once, padded to few lengths so that the work can be recorded."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .processor import Prompt
from .upload import upload


def padded_length(tokens: int, device: torch.device) -> int:
    """Tokens that a prompt is padded to; as it is on a CPU, where nothing is recorded."""
    if device.type != 'cuda':
        return tokens
    step = 64 if tokens <= 512 else 128
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
