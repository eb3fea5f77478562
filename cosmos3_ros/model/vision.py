# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The vision encoder: pictures to tokens that the understanding tower reads.

A SigLIP2 tower over patches, then a projector that joins 2 x 2 of them into one token. Modules
carry the names under which the checkpoint stores them.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
import torch.nn.functional as F

from .config import CheckpointError

PREFIX = 'model.'       # of the stored names, before ours
Grid = tuple[int, int]  # rows and columns of patches of one picture or video frame

_ACTIVATION = 'gelu_pytorch_tanh'
_PROJECTOR_EPS = 1e-6   # not in any config.json


@dataclass(frozen=True)
class VisionConfig:
    """Knobs of `vision_config` in the root config.json, and `projector_hidden_size` beside it.

    Every field must be present, as in TransformerConfig.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_channels: int
    patch_size: int
    hidden_act: str
    layer_norm_eps: float
    num_patches: int
    spatial_merge_size: int
    projector_hidden_size: int

    @property
    def patch_values(self) -> int:
        """Values of one patch."""
        return self.num_channels * self.patch_size**2

    @classmethod
    def from_json(cls, root: Mapping[str, Any], source: str) -> VisionConfig:
        """Read and check the fields of a root config.json; raises CheckpointError."""
        values = dict(root.get('vision_config') or {})
        values['projector_hidden_size'] = root.get('projector_hidden_size')
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if values.get(name) is None]
        if missing:
            raise CheckpointError(
                f'{source}: missing {", ".join(missing)} of the vision encoder; wrong values '
                'change the answers silently, so there are no defaults here: take the config.json '
                'that came with the weights')
        config = cls(**{name: values[name] for name in names})
        side = round(config.num_patches**0.5)
        for name, holds, wanted in (
                ('hidden_act', config.hidden_act == _ACTIVATION, _ACTIVATION),
                ('num_patches', side**2 == config.num_patches, 'a square number'),
                ('hidden_size', config.hidden_size % config.num_attention_heads == 0,
                 f'a multiple of {config.num_attention_heads} heads')):
            if not holds:
                raise CheckpointError(f'{source}: vision_config.{name} is '
                                      f'{getattr(config, name)!r}, wanted {wanted}')
        return config


class _Attention(nn.Module):
    """Self-attention within each picture or video frame, without a mask."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        size = config.hidden_size
        self.heads = config.num_attention_heads
        self.q_proj, self.k_proj = nn.Linear(size, size), nn.Linear(size, size)
        self.v_proj, self.out_proj = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x: Tensor, runs: list[tuple[int, int]]) -> Tensor:
        """Packed [N, C]; `runs`: (pictures, patches in each) of neighbours of equal size."""
        q, k, v = (project(x).split([count * size for count, size in runs])
                   for project in (self.q_proj, self.k_proj, self.v_proj))
        attended = [self._attend(*parts, count) for (count, _), *parts in zip(runs, q, k, v)]
        return self.out_proj(torch.cat(attended))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, count: int) -> Tensor:
        q, k, v = (x.unflatten(0, (count, -1)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for x in (q, k, v))                      # [count, heads, patches, D]
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).flatten(0, 1)


class _MLP(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x), approximate='tanh'))


class _Layer(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.self_attn = _Attention(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = _MLP(config)

    def forward(self, x: Tensor, runs: list[tuple[int, int]]) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x), runs)
        return x + self.mlp(self.layer_norm2(x))


class _Embeddings(nn.Module):
    """Patches, and a learned square grid of positions resized to each picture's grid."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.patch_embedding = nn.Linear(config.patch_values, config.hidden_size)
        self.position_embedding = nn.Embedding(config.num_patches, config.hidden_size)
        self.merge = config.spatial_merge_size

    def forward(self, pixels: Tensor, runs: list[tuple[Grid, int]]) -> Tensor:
        places = [self.places(grid).repeat(count, 1) for grid, count in runs]
        return self.patch_embedding(pixels) + torch.cat(places).to(pixels.dtype)

    def places(self, grid: Grid) -> Tensor:
        """[patches, C] fp32, in the order of the processor's patches: 2 x 2 blocks."""
        side, (rows, columns) = round(len(self.position_embedding.weight)**0.5), grid
        learned = self.position_embedding.weight.float().unflatten(0, (side, side))
        resized = F.interpolate(learned.permute(2, 0, 1)[None], grid, mode='bilinear',
                                align_corners=False, antialias=True)[0]
        blocks = resized.unflatten(2, (-1, self.merge)).unflatten(1, (-1, self.merge))
        return blocks.permute(1, 3, 2, 4, 0).reshape(rows * columns, -1)


class _Encoder(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))


class _Tower(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.encoder = _Encoder(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixels: Tensor, grids: Iterable[Grid]) -> Tensor:
        runs = [(grid, len(list(same))) for grid, same in groupby(grids)]
        x = self.embeddings(pixels, runs)
        sizes = [(count, rows * columns) for (rows, columns), count in runs]
        for layer in self.encoder.layers:
            x = layer(x, sizes)
        return self.post_layernorm(x)


class _Projector(nn.Module):
    def __init__(self, config: VisionConfig, outputs: int):
        super().__init__()
        self.merged = config.hidden_size * config.spatial_merge_size**2
        self.norm = nn.LayerNorm(config.hidden_size, _PROJECTOR_EPS)
        self.linear_fc1 = nn.Linear(self.merged, config.projector_hidden_size)
        self.linear_fc2 = nn.Linear(config.projector_hidden_size, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(F.gelu(self.linear_fc1(self.norm(x).view(-1, self.merged))))


class Vision(nn.Module):
    """Tower and projector; `outputs` is the hidden size of the understanding tower."""

    def __init__(self, config: VisionConfig, outputs: int):
        super().__init__()
        self.config = config
        self.visual = _Tower(config)
        self.projector = _Projector(config, outputs)

    def forward(self, pixels: Tensor, grids: Iterable[Grid]) -> Tensor:
        """Packed patches of pictures and video frames to packed tokens.

        pixels: [N, patch values] as the checkpoint's processor cuts them; grids: rows and columns
        of patches, a pair for each picture or frame. Returns [N / 4, outputs]. A picture's tokens
        do not depend on what is packed beside it.
        """
        return self.projector(self.visual(pixels.to(self.projector.norm.weight.dtype), grids))


def vision_shapes(config: VisionConfig, outputs: int) -> dict[str, tuple[int, ...]]:
    """Stored names and shapes of the vision encoder."""
    with torch.device('meta'):
        tensors = Vision(config, outputs).state_dict()
    return {PREFIX + name: tuple(tensor.shape) for name, tensor in tensors.items()}
