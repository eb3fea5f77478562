# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The mixture of transformers: an understanding tower read by a generation tower.

The understanding tower (UND) is causal and never sees generation tokens, so its keys and values
depend on the prompt alone: `prefill` computes them once for a prompt. The generation tower (GEN)
attends without a mask to [UND keys and values | its own].
"""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
import torch.nn.functional as F

from .config import TransformerConfig
from .layers import MLP, DomainLinear, TimeEmbedder, attend, joined, norm, rotate
from .positions import Layout, generation_positions, rotary_table, text_positions


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

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Output projection, feed-forward and both residuals."""
        x = x + self.attention.out(attended)
        return x + self.mlp(self.post_norm(x))


class Tower(nn.Module):
    """The layers and the final norm of one tower."""

    def __init__(self, config: TransformerConfig, generation: bool):
        super().__init__()
        self.layers = nn.ModuleList(
            Layer(config, generation) for _ in range(config.num_hidden_layers))
        self.norm = norm(config, config.hidden_size)


@dataclass(frozen=True)
class Prefix:
    """Keys and values that the generation tower reads of one prompt.

    `keys` and `values`: [layers, N, kv heads, D], keys normed for GEN and rotated.
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
        self.prefix = prefix
        self.keys = prefix.keys.new_empty(layers, length + room, *rest)
        self.values = torch.empty_like(self.keys)
        self.keys[:, :length], self.values[:, :length] = prefix.keys, prefix.values
        self.length = length

    @staticmethod
    def bytes_per_token(config: TransformerConfig, dtype: torch.dtype) -> int:
        """Bytes that a token takes in all layers."""
        width = config.num_key_value_heads * config.head_dim
        return 2 * config.num_hidden_layers * width * dtype.itemsize

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write a pass's own keys and values behind the rest; returns all that it attends to."""
        end = self.length + len(keys)
        self.keys[layer, self.length:end] = keys
        self.values[layer, self.length:end] = values
        return self.keys[layer, :end], self.values[layer, :end]


@dataclass(frozen=True)
class Branch:
    """One guidance branch of one generation: what it attends to and where its tokens stand.

    `cos` and `sin`: [N, D] of the generation tokens; `noisy`: [N, 1] bool.
    """

    memory: KeyValues
    layout: Layout
    cos: Tensor
    sin: Tensor
    noisy: Tensor


class Transformer(nn.Module):
    """Both towers with the embeddings and heads around them."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        hidden = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, hidden)
        self.lm_head = nn.Linear(hidden, config.vocab_size, bias=False)
        self.und = Tower(config, generation=False)
        self.gen = Tower(config, generation=True)
        self.proj_in = nn.Linear(config.patch_latent_dim, hidden)
        self.proj_out = nn.Linear(hidden, config.patch_latent_dim)
        self.time_embedder = TimeEmbedder(config)
        if config.action_gen:
            domains = config.num_embodiment_domains
            self.action_proj_in = DomainLinear(config.action_dim, hidden, domains)
            self.action_proj_out = DomainLinear(hidden, config.action_dim, domains)
            self.action_modality_embed = nn.Parameter(torch.empty(hidden))

    def prefill(self, token_ids: Tensor) -> Prefix:
        """Run the understanding tower over a prompt [N] of token ids."""
        x = self.embed_tokens(token_ids)
        table = rotary_table(text_positions(len(token_ids)).to(x.device), self.config)
        cos, sin = (t.to(x.dtype) for t in table)
        keys, values = [], []
        for layer in self.und.layers:
            q, k, v = layer.attention.project(layer.input_norm(x))
            keys.append(rotate(layer.attention.k_norm_for_gen(k), cos, sin))
            values.append(v)
            if len(keys) == len(self.und.layers):
                break                   # nothing reads the last layer's output
            attended = attend(rotate(q, cos, sin), rotate(k, cos, sin), v, causal=True)
            x = layer.finish(x, attended)
        return Prefix(torch.stack(keys), torch.stack(values))

    def start(self, prefix: Prefix) -> int:
        """Time position of the first generated frame after a prompt."""
        return prefix.length + self.config.unified_3d_mrope_temporal_modality_margin

    def branch(self, memory: KeyValues, layout: Layout, start: int) -> Branch:
        """Place a generation of the given layout at a time position."""
        device, dtype = memory.keys.device, memory.keys.dtype
        cos, sin = rotary_table(generation_positions(layout, start, self.config), self.config)
        noisy = layout.noisy_tokens(self.config.latent_patch_size)[:, None]
        return Branch(memory, layout, cos.to(device, dtype), sin.to(device, dtype),
                      noisy.to(device))

    def velocity(self, branch: Branch, video: Tensor, timestep: Tensor,
                 rows: Tensor | None = None, domain: int = 0) -> tuple[Tensor, Tensor | None]:
        """Flow velocity of a noisy latent video [C, T, H, W] and of action rows [R, action_dim].

        `timestep`: [1], the integer diffusion time. Returns fp32 velocities of the same shapes,
        zero where frames or rows are clean.
        """
        x = self._embed(branch, video, rows, timestep, domain)
        for index, layer in enumerate(self.gen.layers):
            q, k, v = self._project(branch, layer, x)
            keys, values = branch.memory.extend(index, k, v)
            x = layer.finish(x, attend(q, keys, values))
        return self._read(branch, self.gen.norm(x), domain)

    def write(self, branch: Branch, video: Tensor) -> None:
        """Leave the keys and values of a clean latent video [C, T, H, W] behind the memory's end.

        They are read once the memory's length is moved past them.
        """
        x = self.proj_in(patchify(video.to(self.proj_in.weight.dtype),
                                  self.config.latent_patch_size))
        for index, layer in enumerate(self.gen.layers):
            q, k, v = self._project(branch, layer, x)
            keys, values = branch.memory.extend(index, k, v)
            if index + 1 < len(self.gen.layers):
                x = layer.finish(x, attend(q, keys, values))

    @staticmethod
    def _project(branch: Branch, layer: Layer, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = layer.attention.project(layer.input_norm(x))
        return rotate(q, branch.cos, branch.sin), rotate(k, branch.cos, branch.sin), v

    def _embed(self, branch: Branch, video: Tensor, rows: Tensor | None, timestep: Tensor,
               domain: int) -> Tensor:
        dtype = self.proj_in.weight.dtype
        x = self.proj_in(patchify(video.to(dtype), self.config.latent_patch_size))
        if rows is not None:
            embedded = self.action_proj_in(rows.to(dtype), domain) + self.action_modality_embed
            x = torch.cat([x, embedded])
        return torch.where(branch.noisy, x + self.time_embedder(timestep).to(dtype), x)

    def _read(self, branch: Branch, x: Tensor, domain: int) -> tuple[Tensor, Tensor | None]:
        tokens = len(x) - branch.layout.rows
        patches = self.proj_out(x[:tokens]) * branch.noisy[:tokens]
        video = unpatchify(patches, branch.layout, self.config.latent_patch_size).float()
        if not branch.layout.rows:
            return video, None
        rows = self.action_proj_out(x[tokens:], domain) * branch.noisy[tokens:]
        return video, rows.float()


def patchify(video: Tensor, patch: int) -> Tensor:
    """[C, T, H, W] -> [T * h * w, patch * patch * C], odd sizes padded with zeros.

    Channel order within a token: row in the patch, column in the patch, latent channel.
    """
    channels, frames, height, width = video.shape
    video = F.pad(video, (0, -width % patch, 0, -height % patch))
    video = video.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))   # C T h p w q
    return video.permute(1, 2, 4, 3, 5, 0).reshape(-1, patch * patch * channels)


def unpatchify(tokens: Tensor, layout: Layout, patch: int) -> Tensor:
    """The inverse of `patchify`: [T * h * w, patch * patch * C] -> [C, T, H, W], cropped."""
    frames, height, width = layout.grid(patch)
    video = tokens.view(frames, height, width, patch, patch, -1)
    video = video.permute(5, 0, 1, 3, 2, 4)                             # C T h p w q
    video = video.reshape(-1, frames, height * patch, width * patch)
    return video[:, :, :layout.height, :layout.width]
