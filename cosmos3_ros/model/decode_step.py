# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A decode step in five kernels a layer, each of which reads its weights once.

A network is taken as it lies in memory, or with the weights of its linear layers in fp8, a scale
for each output.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .config import TransformerConfig
from .kernels.decode_attention import Joints, attend
from .kernels.skinny import After, Shape, Stream, linear
from .kernels.token import choose, embed
from .transformer import Transformer

MOST_ROWS = 32
ATTENTION, ONE_ROW_ATTENTION = (64, 4), (16, 1)     # tokens at a time, warps
FP8 = torch.float8_e4m3fn

# By kind of layer: for one row, for up to 16, for up to 32
SHAPES = {
    'qkv': (Shape(16, 1024, 8, 1), Shape(32, 128, 4, 4), Shape(16, 256, 4, 4)),
    'out': (Shape(8, 2048, 4, 1), Shape(32, 128, 4, 4), Shape(32, 128, 4, 4)),
    'up': (Shape(2, 1024, 4, 1), Shape(32, 128, 4, 4), Shape(32, 128, 4, 4)),
    'down': (Shape(8, 1024, 8, 3), Shape(16, 512, 4, 4), Shape(16, 256, 4, 4)),
    'head': (Shape(4, 1024, 4, 1), Shape(32, 128, 4, 4), Shape(32, 128, 4, 4)),
}
ONE_ROW_FP8 = {
    'qkv': Shape(4, 2048, 4, 1),
    'out': Shape(4, 2048, 4, 1),
    'up': Shape(8, 2048, 4, 1),
    'down': Shape(4, 1024, 4, 3),
    'head': Shape(4, 2048, 4, 1),
}


def suits(config: TransformerConfig, dtype: torch.dtype) -> bool:
    """Whether the kernels are made for a network: bf16, relu squared, no biases."""
    return (dtype == torch.bfloat16 and config.hidden_act == 'relu2'
            and not config.attention_bias
            and config.num_attention_heads <= 16 * config.num_key_value_heads)


class Weight(NamedTuple):
    """A weight [N, K], in fp8 with `scale` fp32 [N]."""

    values: Tensor
    scale: Tensor | None = None

    @classmethod
    def of(cls, weight: Tensor, fp8: bool) -> Weight:
        if not fp8:
            return cls(weight)
        largest = weight.float().abs().amax(1, keepdim=True).clamp(min=1e-12)
        scale = largest / torch.finfo(FP8).max
        return cls((weight.float() / scale).to(FP8), scale[:, 0].contiguous())


@dataclass(frozen=True)
class State:
    """What lies on the device of each slot: [slots] each, and the caches.

    keys, values: [layers, slots, kv heads, length, D]; cos, sin: [length, D].
    """

    token: Tensor
    filled: Tensor
    position: Tensor
    active: Tensor
    step: Tensor
    keys: Tensor
    values: Tensor
    cos: Tensor
    sin: Tensor


class DecodeStep:
    """The kernels of a step over some state, for at most MOST_ROWS rows."""

    def __init__(self, network: Transformer, state: State, fp8: bool = False):
        config, device = network.config, network.embed_tokens.weight.device
        self._network, self._state = network, state
        self._eps = config.rms_norm_eps
        layers = network.und.layers
        self._qkv, self._out, self._up, self._down = (
            [Weight.of(weight, fp8) for weight in weights] for weights in (
                (layer.attention.qkv_weight for layer in layers),
                (layer.attention.out.weight for layer in layers),
                (layer.mlp.up_proj.weight for layer in layers),
                (layer.mlp.down_proj.weight for layer in layers)))
        self._head = Weight.of(network.lm_head.weight, fp8)
        dtype, wide = network.embed_tokens.weight.dtype, self._qkv[0].values.shape[0]

        def buffer(columns: int, kind: torch.dtype = dtype) -> Tensor:
            return torch.zeros(MOST_ROWS, columns, dtype=kind, device=device)

        self._x, self._normed = buffer(config.hidden_size), buffer(config.hidden_size)
        self._squares = torch.zeros(MOST_ROWS * config.hidden_size, device=device)
        self._joined, self._inner = buffer(wide), buffer(config.intermediate_size)
        self._attended = buffer(config.num_attention_heads * config.head_dim)
        self._best = torch.zeros(MOST_ROWS * config.vocab_size // 16, device=device)
        self._indices = torch.zeros(len(self._best), dtype=torch.int32, device=device)
        self._joints = Joints(min(MOST_ROWS, len(state.token)), config.num_key_value_heads,
                              config.num_attention_heads // config.num_key_value_heads,
                              config.head_dim, device)

    def greedy(self, rows: int) -> Tensor:
        """The likeliest next token of the first `rows` slots, [rows]; the state goes on."""
        state, shape = self._state, self._shape('head', self._head, rows)
        stream = self._tower(rows)
        blocks = len(self._head.values) // shape.block_n
        best, indices = (room[:rows * blocks].view(rows, blocks)
                         for room in (self._best, self._indices))
        linear(stream, *self._head, rows, best, shape, after=After.LIKELIEST, indices=indices)
        tokens = torch.empty_like(state.token[:rows])
        choose(best, indices, state.token, tokens, (state.filled, state.position, state.step),
               state.active, rows)
        return tokens

    def logits(self, rows: int) -> Tensor:
        """fp32 [rows, vocabulary] of the next tokens; nothing goes on."""
        stream = self._tower(rows)
        out = torch.empty(rows, len(self._head.values), device=stream.x.device)
        linear(stream, *self._head, rows, out, self._shape('head', self._head, rows))
        return out

    def _tower(self, rows: int) -> Stream:
        network, state, layers = self._network, self._state, self._network.und.layers
        norms = [norm.weight for layer in layers for norm in (layer.input_norm, layer.post_norm)]
        norms.append(network.und.norm.weight)
        shapes = {kind: self._shape(kind, weights[0], rows) for kind, weights in (
            ('qkv', self._qkv), ('out', self._out), ('up', self._up), ('down', self._down))}
        outer, inner = self._stream(shapes['down']), self._stream(shapes['out'])
        embed(state.token, network.embed_tokens.weight, norms[0], outer, rows)
        for index, layer in enumerate(layers):
            attention = layer.attention
            linear(outer, *self._qkv[index], rows, self._joined, shapes['qkv'])
            normed = network.config.qk_norm_for_text
            attend(self._joined, state.keys[index], state.values[index], state.cos, state.sin,
                   state.filled, state.position, state.active, self._attended, self._joints, rows,
                   (attention.q_norm.weight, attention.k_norm.weight) if normed else None,
                   self._eps, *(ONE_ROW_ATTENTION if rows == 1 else ATTENTION))
            linear(self._attended, *self._out[index], rows, None, shapes['out'],
                   after=After.RESIDUAL, norm=norms[2 * index + 1], stream=inner)
            linear(inner, *self._up[index], rows, self._inner, shapes['up'], after=After.RELU2)
            linear(self._inner, *self._down[index], rows, None, shapes['down'],
                   after=After.RESIDUAL, norm=norms[2 * index + 2], stream=outer)
        return outer

    def _stream(self, shape: Shape) -> Stream:
        """The residual stream with the sums of squares that a kernel of this shape leaves."""
        blocks = self._x.shape[1] // shape.block_n
        return Stream(self._x, self._normed, self._squares[:MOST_ROWS * blocks].view(-1, blocks),
                      self._eps)

    @staticmethod
    def _shape(kind: str, weight: Weight, rows: int) -> Shape:
        size = 0 if rows == 1 else 1 if rows <= 16 else 2
        fp8 = size == 0 and weight.scale is not None
        shape = ONE_ROW_FP8[kind] if fp8 else SHAPES[kind][size]
        return shape.fitting(*weight.values.shape)
