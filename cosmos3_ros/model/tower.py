# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The layers of a tower, and the matrix products that they are made of."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
import torch.nn.functional as F

from .config import TransformerConfig
from .kernels.quantize import FP8, Quantized, quantize
from .kernels.relu2 import relu2
from .layers import MLP, Dense, Fp8Dense, WideDense, joined, norm


class Attention(nn.Module):
    """Projections and norms of one tower's attention."""

    def __init__(self, config: TransformerConfig, generation: bool):
        super().__init__()
        self.heads = (config.num_attention_heads, config.head_dim)
        self.kv_heads = (config.num_key_value_heads, config.head_dim)
        inner, kv_inner = self.heads[0] * config.head_dim, self.kv_heads[0] * config.head_dim
        bias = config.attention_bias
        self.q = nn.Linear(config.hidden_size, inner, bias=bias)
        self.k = nn.Linear(config.hidden_size, kv_inner, bias=bias)
        self.v = nn.Linear(config.hidden_size, kv_inner, bias=bias)
        self.out = nn.Linear(inner, config.hidden_size, bias=bias)
        normed = generation or config.qk_norm_for_text
        self.q_norm = norm(config, config.head_dim) if normed else nn.Identity()
        self.k_norm = norm(config, config.head_dim) if normed else nn.Identity()
        extra = not generation and not normed and config.use_und_k_norm_for_gen
        self.k_norm_for_gen = norm(config, config.head_dim) if extra else nn.Identity()
        self.qkv_weight: Tensor | None = None
        self.qkv_bias: Tensor | None = None

    def join(self) -> None:
        """Make the three projections one, once their weights are loaded.

        q, k and v keep their parameters, as views of `qkv_weight` and `qkv_bias`.
        """
        parts = (self.q, self.k, self.v)
        self.qkv_weight = joined([part.weight for part in parts])
        weights = self.qkv_weight.split([len(part.weight) for part in parts])
        for part, weight in zip(parts, weights, strict=True):
            part.weight = nn.Parameter(weight, requires_grad=False)
        if self.q.bias is not None:
            self.qkv_bias = joined([part.bias for part in parts])
            biases = self.qkv_bias.split([len(part.bias) for part in parts])
            for part, bias in zip(parts, biases, strict=True):
                part.bias = nn.Parameter(bias, requires_grad=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[N, hidden] -> q [N, heads, D], k and v [N, kv heads, D], before rotation."""
        q, k, v = F.linear(x, self.qkv_weight, self.qkv_bias).unflatten(
            -1, (-1, self.heads[1])).split([self.heads[0], self.kv_heads[0], self.kv_heads[0]], -2)
        return self.q_norm(q), self.k_norm(k), v


class Layer(nn.Module):
    """One layer of one tower."""

    def __init__(self, config: TransformerConfig, generation: bool):
        super().__init__()
        self.input_norm = norm(config, config.hidden_size)
        self.attention = Attention(config, generation)
        self.post_norm = norm(config, config.hidden_size)
        self.mlp = MLP(config)
        self.generation = generation
        self.products: Products | None = None

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Output projection, feed-forward and both residuals."""
        x = x + self.attention.out(attended)
        return x + self.mlp(self.post_norm(x))

    def prepare(self, fp8: bool = False) -> None:
        """Join projections, once the weights are loaded; with `fp8` round the weights for good."""
        self.attention.join()
        kind, attention, mlp = Fp8Dense if fp8 else Dense, self.attention, self.mlp
        # rounding before the square would be most of an action's error
        wide = WideDense if self.generation and not fp8 else kind
        self.products = Products(
            kind(attention.qkv_weight, attention.qkv_bias),
            kind(attention.out.weight, attention.out.bias),
            mlp.gate_proj and wide(mlp.gate_proj.weight), wide(mlp.up_proj.weight),
            kind(mlp.down_proj.weight), FP8 if fp8 else attention.qkv_weight.dtype)
        if fp8:
            attention.qkv_weight = None
            for part in (attention.q, attention.k, attention.v, attention.out, mlp.gate_proj,
                         mlp.up_proj, mlp.down_proj):
                if part is not None:
                    part.weight = nn.Parameter(part.weight.new_empty(0), requires_grad=False)


@dataclass(frozen=True)
class Products:
    """The matrix products of a layer and the type of what they take."""

    qkv: Dense | Fp8Dense
    out: Dense | Fp8Dense
    gate: Dense | Fp8Dense | None
    up: Dense | Fp8Dense
    down: Dense | Fp8Dense
    dtype: torch.dtype

    def feed_forward(self, x: Tensor | Quantized) -> Tensor:
        """[N, hidden] -> [N, hidden]."""
        if self.gate is None:
            return self.down(relu2(self.up(x), self.dtype))
        inner = F.silu(self.gate(x)) * self.up(x)
        return self.down(quantize(inner) if self.dtype == FP8 else inner.to(self.dtype))


class Tower(nn.Module):
    """The layers and the final norm of one tower."""

    def __init__(self, config: TransformerConfig, generation: bool):
        super().__init__()
        self.layers = nn.ModuleList(
            Layer(config, generation) for _ in range(config.num_hidden_layers))
        self.norm = norm(config, config.hidden_size)
