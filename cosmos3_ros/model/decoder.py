# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Text of many streams through the understanding tower, over one cache of keys and values.

The cache has a slot for each stream. Prompts are read whole, a few at once, or one in chunks; then
all streams take a token each in one pass. What a pass needs of a stream (its last token, where it
stands, how to sample) lies on the device, so a step costs no copy to it. A reasoner reads plain
rotated keys, not those normed for the generation tower.

Where kernels are made for the network, a step is a CUDA graph, captured when first wanted for so
many rows; elsewhere it is plain torch, which says what the kernels compute.
"""
from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
import torch.nn.functional as F

from .config import TransformerConfig
from .layers import rotate
from .positions import rotary_table
from .prompt_batch import PromptBatch, read_prompts
from .recordings import Recordings
from .sampling import Choice, Sampling, sample
from .transformer import Transformer
from .upload import upload

if TYPE_CHECKING:
    from .decode_step import DecodeStep

LENGTH_STEP = 256       # attended lengths are multiples of it: few shapes


@dataclass(frozen=True)
class Entrant:
    """A stream whose prompt is read: `filled` tokens are in its slot, the next has `position`."""

    slot: int
    filled: int
    position: int
    choice: Choice


class Decoder:
    """`slots` streams of at most `length` tokens each, prompt and answer.

    A slot takes 2 x layers x kv heads x head_dim values a token (Edge in bf16: 115 KB). `fp8`:
    steps, where kernels suit the network, read a copy of the weights in that type.
    """

    def __init__(self, transformer: Transformer, slots: int, length: int, fp8: bool = False):
        config, weight = transformer.config, transformer.embed_tokens.weight
        self._network = transformer
        self.slots, self.length, self._device = slots, length, weight.device
        # one column more: where passes write for rows that take no part
        shape = (config.num_hidden_layers, slots, config.num_key_value_heads, length + 1,
                 config.head_dim)
        self._keys, self._values = (torch.zeros(shape, device=weight.device, dtype=weight.dtype)
                                    for _ in range(2))
        # a column of each for every slot, so that a stream joins in one write
        self._counts = torch.zeros(7, slots, dtype=torch.long, device=weight.device)
        self._shares = torch.zeros(2, slots, device=weight.device)
        (self._token, self._filled, self._position, self._active, top_k, seed,
         step) = self._counts.unbind()
        self._sampling = Sampling(*self._shares.unbind(), top_k, seed, step)
        self._rows = torch.arange(slots, device=weight.device)
        text = torch.ones(3, 1, device=weight.device)
        self._cos, self._sin = (table.to(weight.dtype) for table in rotary_table(
            text * torch.arange(length + 1, device=weight.device), config))
        self._axis = _axes(config).to(weight.device)
        self._recordings = Recordings()
        self._kernels = self._fitting_kernels(fp8)
        self._graphs: dict[tuple[int, bool], tuple[torch.cuda.CUDAGraph, Tensor]] = {}

    def _fitting_kernels(self, fp8: bool) -> DecodeStep | None:
        """A step in kernels, if there are some for this network and device."""
        if self._device.type != 'cuda':
            return None                 # without CUDA, Triton may be missing
        from .decode_step import MOST_ROWS, DecodeStep, State, suits
        if self.slots > MOST_ROWS or not suits(self._network.config, self._keys.dtype):
            return None
        return DecodeStep(self._network, State(
            self._token, self._filled, self._position, self._active, self._sampling.step,
            self._keys, self._values, self._cos, self._sin), fp8)

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy the first tokens of one slot into another."""
        for cache in (self._keys, self._values):
            cache[:, target, :, :count] = cache[:, source, :, :count]

    def embed(self, ids: Tensor) -> Tensor:
        """[N] token ids -> [N, hidden]."""
        return self._network.embed_tokens(ids)

    def read(self, batch: PromptBatch, x: Tensor) -> Generator[None, None, Tensor]:
        """Job that reads whole prompts into their slots; yields between layers.

        x: [N, hidden], the batch's tokens embedded, with picture tokens put in. Returns the logits
        after each prompt, fp32 [prompts, vocabulary], until the next are read.
        """
        return (yield from self._recordings.run(
            (batch.count, batch.length), self._read, x, batch.positions, batch.slots,
            batch.columns, batch.last))

    def _read(self, x: Tensor, positions: Tensor, slots: Tensor, columns: Tensor,
              last: Tensor) -> Generator[None, None, Tensor]:
        x = yield from read_prompts(self._network, x, self.rotary(positions), (slots, columns),
                                    last, self._keys, self._values)
        return self._logits(x)

    def prefill(self, slot: int, start: int, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Read a chunk of a prompt into a slot; everything before `start` must be in it.

        x: [N, hidden] embedded tokens or picture tokens; cos, sin: [N, D]. Returns the last
        token's logits, fp32 [1, vocabulary].
        """
        end = start + len(x)
        for index, layer in enumerate(self._network.und.layers):
            q, k, v = layer.attention.project(layer.input_norm(x))
            keys, values = self._keys[index, slot], self._values[index, slot]
            keys[:, start:end] = rotate(k, cos, sin).transpose(0, 1)
            values[:, start:end] = v.transpose(0, 1)
            attended = _attend_last(rotate(q, cos, sin), keys[:, :end], values[:, :end])
            x = layer.finish(x, attended)
        return self._logits(x[-1:])

    def rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin, each [N, D] in the network's type, of positions [3, N] on the device.

        Positions are whole numbers from 0 to `length`.
        """
        places = positions[self._axis].T
        return self._cos.gather(0, places), self._sin.gather(0, places)

    def join(self, entrants: Sequence[Entrant], logits: Tensor) -> Tensor:
        """Let streams take part in steps from now on; returns the first token of each.

        `logits`: those after their prompts, [streams, vocabulary].
        """
        choices = [entrant.choice for entrant in entrants]
        shares = np.array([[choice.temperature for choice in choices],
                           [choice.top_p for choice in choices]])
        numbers = np.array([(one.slot, 0, one.filled, one.position, 1, one.choice.top_k,
                             one.choice.seed, 0) for one in entrants]).T
        whole = upload(torch.from_numpy(np.concatenate([numbers, shares.view(np.int64)])),
                       self._device)
        slots, counts, shares = whole[0], whole[1:8], whole[8:].view(torch.float64).float()
        *_, top_k, seed, step = counts
        first = sample(logits, Sampling(*shares, top_k, seed, step),
                       any(choice.random for choice in choices))
        counts[0] = first
        step += 1
        self._counts.index_copy_(1, slots, counts)
        self._shares.index_copy_(1, slots, shares)
        return first

    def leave(self, slot: int) -> None:
        """Take a stream out of the steps; its tokens stay in the slot."""
        self._active[slot] = 0

    def step(self, rows: int, length: int, random: bool) -> Tensor:
        """One token for every stream among the first `rows` slots; [rows], on the device.

        `length`: bound on the tokens in any of these slots, after the step. `random`: some
        stream samples. Tokens of rows that take no part mean nothing.
        """
        if self._kernels is None:
            return self._step(rows, self._plain(rows, length), random)
        key = rows, random
        if key not in self._graphs:
            self._graphs[key] = self._capture(rows, random)
        graph, tokens = self._graphs[key]
        graph.replay()
        return tokens

    def _step(self, rows: int, logits: Tensor, random: bool) -> Tensor:
        tokens = sample(logits, self._sampling.rows(rows), random)
        self._token[:rows] = tokens
        for counter in (self._filled, self._position, self._sampling.step):
            counter[:rows] += self._active[:rows]
        return tokens

    def _fused(self, rows: int, random: bool) -> Tensor:
        if random:
            return self._step(rows, self._kernels.logits(rows), random)
        return self._kernels.greedy(rows)

    def _capture(self, rows: int, random: bool) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """A graph of a step, and where it leaves its tokens.

        The passes before it compile the kernels; as no row takes part, they change no stream.
        """
        active, token = self._active.clone(), self._token.clone()
        self._active.zero_()
        self._fused(rows, random)
        self._active.copy_(active)
        self._token.copy_(token)
        graph = torch.cuda.CUDAGraph()
        pool = next((other.pool() for other, _ in self._graphs.values()), None)
        with torch.cuda.graph(graph, pool=pool, capture_error_mode='thread_local'):
            tokens = self._fused(rows, random)
        return graph, tokens

    def _plain(self, rows: int, length: int) -> Tensor:
        """Logits of a step in plain torch, fp32 [rows, vocabulary]."""
        filled = self._filled[:rows]
        write = torch.where(self._active[:rows] > 0, filled, self.length)
        attended = min(-(-length // LENGTH_STEP) * LENGTH_STEP, self.length)
        return self._logits(self._tower(self._token[:rows], write, self._position[:rows], filled,
                                        attended))

    def _tower(self, tokens: Tensor, write: Tensor, place: Tensor, filled: Tensor,
               length: int) -> Tensor:
        """One token a row through all layers: [rows] -> [rows, hidden].

        `write`: column of the cache; `place`: position; columns up to `filled` are attended.
        """
        rows = self._rows[:len(tokens)]
        x, cos, sin = self.embed(tokens), self._cos[place], self._sin[place]
        mask = (torch.arange(length, device=x.device) <= filled[:, None])[:, None, None]
        for layer, keys, values in zip(self._network.und.layers, self._keys, self._values,
                                       strict=True):
            q, k, v = layer.attention.project(layer.input_norm(x))
            keys[rows, :, write], values[rows, :, write] = rotate(k, cos, sin), v
            q = rotate(q, cos, sin).unflatten(1, (k.shape[1], -1))      # [rows, kv, group, D]
            attended = F.scaled_dot_product_attention(
                q, keys[:len(rows), :, :length], values[:len(rows), :, :length], mask)
            x = layer.finish(x, attended.flatten(1))
        return x

    def _logits(self, x: Tensor) -> Tensor:
        return self._network.lm_head(self._network.und.norm(x)).float()


def _axes(config: TransformerConfig) -> Tensor:
    """[D]: the axis with which each value of a head turns."""
    return rotary_table(torch.eye(3), config)[1].abs().argmax(0)


def _attend_last(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of a sequence's last tokens: q [N, H, D], k and v [K, M, D], M >= N."""
    whole = len(q) == k.shape[1]
    mask = None if whole else causal_lower_right(len(q), k.shape[1])
    out = F.scaled_dot_product_attention(q.transpose(0, 1)[None], k[None], v[None], mask,
                                         is_causal=whole, enable_gqa=True)
    return out[0].transpose(0, 1).flatten(1)
