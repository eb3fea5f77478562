# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the generation tower attends to, and where its own tokens stand."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .config import TransformerConfig
from .positions import Layout
from .recordings import Recordings

IDLE_KEPT = 4           # of branches
IDLE_TOKENS = 16384     # of all branches together, beyond which they are not kept


@dataclass(frozen=True)
class Prefix:
    """Keys and values that the generation tower reads of one prompt.

    `keys` and `values`: [layers, N, kv heads, D], keys normed for GEN and rotated. Generation
    keeps its own keys in the type of these.
    """

    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        return self.keys.shape[1]


class KeyValues:
    """A buffer of keys and values that one guidance branch attends to.

    [layers, capacity, kv heads, D] each. The first `length` tokens are the prompt and what was
    committed after it; a pass writes its own tokens behind them. Order does not matter to the
    attention: positions are rotated into the keys.
    """

    def __init__(self, prefix: Prefix, room: int):
        """`room`: tokens wanted behind the prompt."""
        layers, length, *rest = prefix.keys.shape
        self.keys, self.values = (part.new_empty(layers, length + room, *rest)
                                  for part in (prefix.keys, prefix.values))
        self.length = length
        self._put(prefix)

    def follow(self, prefix: Prefix) -> None:
        """Stand behind another prompt of the same length, with nothing after it."""
        self.length = prefix.length
        if prefix is not self.prefix:
            self._put(prefix)

    def _put(self, prefix: Prefix) -> None:
        self.prefix = prefix
        self.keys[:, :prefix.length], self.values[:, :prefix.length] = prefix.keys, prefix.values

    @property
    def place(self) -> tuple[int, ...]:
        """Where a pass finds and leaves keys and values: equal places, equal memory."""
        return self.keys.data_ptr(), self.values.data_ptr(), self.keys.shape[1], self.length

    @staticmethod
    def bytes_per_token(config: TransformerConfig, dtype: torch.dtype) -> int:
        """Bytes that a token takes in all layers, at most: keys may be in 8 bits."""
        width = config.num_key_value_heads * config.head_dim
        return 2 * config.num_hidden_layers * width * dtype.itemsize

    def behind(self, layer: int, count: int) -> tuple[Tensor, Tensor]:
        """Where a pass writes the keys and values of its own tokens, [count, kv heads, D] each."""
        end = self.length + count
        return self.keys[layer, self.length:end], self.values[layer, self.length:end]

    def read(self, layer: int, count: int) -> tuple[Tensor, Tensor]:
        """All that a pass attends to, its own `count` tokens last."""
        end = self.length + count
        return self.keys[layer, :end], self.values[layer, :end]


@dataclass(frozen=True, eq=False)
class Branches:
    """The guidance branches of one generation: what each attends to and where its tokens stand.

    They run as one batch, one behind the other. `cos` and `sin`: fp32 [branches * N, D] of the
    generation tokens; `noisy`: [N, 1] bool. `recordings`: of passes over these memories.
    """

    memories: tuple[KeyValues, ...]
    layout: Layout
    cos: Tensor
    sin: Tensor
    noisy: Tensor
    recordings: Recordings

    def first(self) -> Branches:
        """The first branch alone."""
        count = len(self.noisy)
        return replace(self, memories=self.memories[:1], cos=self.cos[:count],
                       sin=self.sin[:count])


class BranchPool:
    """Branches of generations that have ended, for the next one of the same shape.

    With the memories stays what was recorded over them.
    """

    def __init__(self) -> None:
        self._idle: list[Branches] = []     # the one used last at the end

    @contextmanager
    def lend(self, prefixes: Sequence[Prefix], layout: Layout,
             make: Callable[[], Branches]) -> Iterator[Branches]:
        """Branches behind some prompts for one generation; `make` makes them if none fit."""
        branches = self._take(prefixes, layout) or make()
        for memory, prefix in zip(branches.memories, prefixes, strict=True):
            memory.follow(prefix)
        failed = False
        try:
            yield branches
        except Exception:
            failed = True
            raise
        finally:
            if failed:                      # it may have been for want of memory
                self._idle.clear()
            elif len(branches.cos) <= IDLE_TOKENS:
                self._idle = [*self._idle[1 - IDLE_KEPT:], branches]

    def _take(self, prefixes: Sequence[Prefix], layout: Layout) -> Branches | None:
        lengths = [prefix.length for prefix in prefixes]
        for place in reversed(range(len(self._idle))):
            found = self._idle[place]
            if found.layout == layout and [m.prefix.length for m in found.memories] == lengths:
                return self._idle.pop(place)
        return None
