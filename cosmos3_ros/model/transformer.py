# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The mixture of transformers: an understanding tower read by a generation tower.

The understanding tower (UND) is causal and never sees generation tokens, so its keys and values
depend on the prompt alone: `prefill` computes them once for a prompt. The generation tower (GEN)
attends without a mask to [UND keys and values | its own].
"""
from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
import torch.nn.functional as F

from .branches import Branches, KeyValues, Prefix
from .config import TransformerConfig
from .job import finish, pauses, single
from .kernels.add_norm import add_norm
from .kernels.flash_attention import suits
from .kernels.quantize import FP8, LARGEST, Quantized, quantize
from .kernels.split_heads import split_heads
from .layers import (
    DomainLinear,
    RMSNorm,
    TimeEmbedder,
    attend,
    attend_in_full,
    rotate,
)
from .positions import Layout, generation_positions, rotary_table, text_positions
from .recordings import Recordings
from .tower import Layer, Tower

TOKENS_PER_UNIT = 8192  # times layers, between two yields: about 2 ms of an H200
RECORDED_TOKENS = 16384 # of a pass; in longer ones a launch takes less time than its kernel
PROMPT_STEP = 64        # tokens; prompts are read in few lengths, of which there are graphs
PLACES_KEPT = 16        # layouts whose positions stay on the device (DROID: 3 MB each)


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
        self._places: dict[tuple[Layout, int], tuple[Tensor, Tensor, Tensor]] = {}
        self._prompts = Recordings()        # that were read, by length
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
        count = len(token_ids)
        token_ids = F.pad(token_ids, (0, -count % PROMPT_STEP))     # no token sees a later one
        positions = text_positions(len(token_ids)).to(token_ids.device)
        inputs = token_ids, *rotary_table(positions, self.config)
        keys, values = finish(self._prompts.run(
            len(token_ids), partial(single, self._prefill), *inputs))
        keys, values = keys[:, :count], values[:, :count].clone()
        if self._fp8_keys:
            return Prefix(keys.clamp(-LARGEST, LARGEST).to(FP8), values)
        return Prefix(keys.clone(), values)

    @property
    def _fp8_keys(self) -> bool:
        """Whether generation's keys are in 8 bits: where its products are, and a kernel takes them.

        Keys are normed, so they need no scale.
        """
        attention, dtype = self.gen.layers[0].attention, self.embed_tokens.weight.dtype
        return (self.gen.layers[0].products.dtype == FP8
                and suits(self.embed_tokens.weight.device, dtype, attention.heads[1]))

    def _prefill(self, token_ids: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, [layers, N, kv heads, D] each."""
        x = self.embed_tokens(token_ids)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        keys, values = [], []
        for layer in self.und.layers:
            q, k, v = layer.attention.project(layer.input_norm(x))
            keys.append(rotate(layer.attention.k_norm_for_gen(k), cos, sin))
            values.append(v)
            if len(keys) == len(self.und.layers):
                break                   # nothing reads the last layer's output
            attended = attend(rotate(q, cos, sin), rotate(k, cos, sin), v, causal=True)
            x = layer.finish(x, attended)
        return torch.stack(keys), torch.stack(values)

    def start(self, prefix: Prefix) -> int:
        """Time position of the first generated frame after a prompt."""
        return prefix.length + self.config.unified_3d_mrope_temporal_modality_margin

    def branches(self, memories: Sequence[KeyValues], layout: Layout, starts: Sequence[int],
                 recordings: Recordings | None = None) -> Branches:
        """Place a generation of the given layout at a time position behind each memory.

        `recordings`: of earlier passes over the same memories, wherever they stood.
        """
        places = [self._place(layout, start) for start in starts]
        return Branches(tuple(memories), layout, torch.cat([cos for cos, _, _ in places]),
                        torch.cat([sin for _, sin, _ in places]), places[0][2],
                        recordings or Recordings())

    def _place(self, layout: Layout, start: int) -> tuple[Tensor, Tensor, Tensor]:
        """cos, sin and noisy tokens of one branch; the most recent ones are kept."""
        if (layout, start) not in self._places:
            device = self.proj_in.weight.device
            positions = generation_positions(layout, start, self.config).to(device)
            noisy = layout.noisy_tokens(self.config.latent_patch_size)[:, None].to(device)
            self._places[layout, start] = *rotary_table(positions, self.config), noisy
            while len(self._places) > PLACES_KEPT:
                del self._places[next(iter(self._places))]
        return self._places[layout, start]

    def velocity(self, branches: Branches, video: Tensor, timestep: float,
                 rows: Tensor | None = None, domain: int = 0
                 ) -> Generator[None, None, list[tuple[Tensor, Tensor | None]]]:
        """Flow velocity of a noisy latent video [C, T, H, W] and of action rows [R, action_dim].

        `timestep`: the integer diffusion time. Yields between layers. Returns, for each branch,
        fp32 velocities of the same shapes, zero where frames or rows are clean; the next pass
        over the same memories may write them anew.
        """
        time = torch.full((1,), float(timestep), device=video.device)
        inputs = [video, time, branches.cos, branches.sin, branches.noisy]
        if rows is not None:
            inputs.append(rows)
        work = partial(self._velocity, branches, domain)
        if len(branches.cos) > RECORDED_TOKENS:
            return (yield from work(*inputs))
        places = tuple(memory.place for memory in branches.memories)
        key = places, video.shape, rows is None, domain
        return (yield from branches.recordings.run(key, work, *inputs))

    def _velocity(self, branches: Branches, domain: int, video: Tensor, time: Tensor, cos: Tensor,
                  sin: Tensor, noisy: Tensor, rows: Tensor | None = None
                  ) -> Generator[None, None, list[tuple[Tensor, Tensor | None]]]:
        branches = replace(branches, cos=cos, sin=sin, noisy=noisy)
        x = self._embed(branches, video, rows, time, domain)
        y = yield from self._pass(branches, x, len(self.gen.layers))
        x = self._norm(self.gen.norm, x, y, torch.float32)
        return [self._read(branches, part, domain) for part in x.split(len(noisy))]

    def write(self, branches: Branches, video: Tensor) -> Generator[None, None, None]:
        """Leave the keys and values of a clean latent video [C, T, H, W] behind each memory's end.

        They are read once the memory's length is moved past them. Yields between layers.
        """
        x = self._patches(video).repeat(len(branches.memories), 1)
        last = len(self.gen.layers) - 1
        y = yield from self._pass(branches, x, last)
        layer = self.gen.layers[last]
        qkv = layer.products.qkv(self._norm(layer.input_norm, x, y, layer.products.dtype))
        self._split(branches, last, layer, qkv)

    def _pass(self, branches: Branches, x: Tensor,
              depth: int) -> Generator[None, None, Tensor]:
        """Run layers over the residual stream x; returns what is to be added to it in the end."""
        y, ends = None, pauses(depth, TOKENS_PER_UNIT // len(x))
        for index in range(depth):
            y = self._layer(branches, index, x, y)
            if index + 1 in ends:
                yield
        return y

    def _layer(self, branches: Branches, index: int, x: Tensor, y: Tensor | None) -> Tensor:
        layer = self.gen.layers[index]
        products = layer.products
        qkv = products.qkv(self._norm(layer.input_norm, x, y, products.dtype))
        count = len(branches.noisy)
        queries = self._split(branches, index, layer, qkv)
        attended = qkv.new_empty(len(x), queries[0][0].numel())
        for q, memory, part in zip(queries, branches.memories, attended.split(count),
                                   strict=True):
            attend_in_full(q, *memory.read(index, count), part)
        y = products.out(quantize(attended) if products.dtype == FP8 else attended)
        return products.feed_forward(self._norm(layer.post_norm, x, y, products.dtype))

    @staticmethod
    def _norm(norm: RMSNorm, x: Tensor, y: Tensor | None,
              dtype: torch.dtype) -> Tensor | Quantized:
        return add_norm(x, y, norm.weight, norm.eps, dtype)

    @staticmethod
    def _split(branches: Branches, index: int, layer: Layer, qkv: Tensor) -> list[Tensor]:
        """Queries of each branch; its keys and values go into its memory."""
        count, attention = len(branches.noisy), layer.attention
        parts = zip(branches.memories, qkv.split(count), branches.cos.split(count),
                    branches.sin.split(count), strict=True)
        return [split_heads(part, attention.q_norm.weight, attention.k_norm.weight,
                            attention.q_norm.eps, cos, sin, *memory.behind(index, count))
                for memory, part, cos, sin in parts]

    def _patches(self, video: Tensor) -> Tensor:
        """Embedded patches, fp32 as the residual stream is."""
        patches = patchify(video.float(), self.config.latent_patch_size)
        return _linear(self.proj_in, patches)

    def _embed(self, branches: Branches, video: Tensor, rows: Tensor | None, time: Tensor,
               domain: int) -> Tensor:
        x = self._patches(video)
        if rows is not None:
            embedded = self.action_proj_in(rows.float(), domain) + self.action_modality_embed
            x = torch.cat([x, embedded])
        x = torch.where(branches.noisy, x + self.time_embedder(time), x)
        return x.repeat(len(branches.memories), 1)

    def _read(self, branches: Branches, x: Tensor,
              domain: int) -> tuple[Tensor, Tensor | None]:
        tokens = len(x) - branches.layout.rows
        patches = _linear(self.proj_out, x[:tokens]) * branches.noisy[:tokens]
        video = unpatchify(patches, branches.layout, self.config.latent_patch_size)
        if not branches.layout.rows:
            return video, None
        return video, self.action_proj_out(x[tokens:], domain) * branches.noisy[tokens:]


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """A linear layer in fp32, whatever the type of its weights: the ends of the network."""
    return F.linear(x, layer.weight.float(), layer.bias.float())


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
