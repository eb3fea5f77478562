# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The vision encoder: pictures to tokens that the understanding tower reads.

A SigLIP2 tower over patches, then a projector that joins 2 x 2 of them into one token. Modules
carry the names under which the checkpoint stores them.
"""
from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
import torch.nn.functional as F

from .config import CheckpointError
from .job import finish, pauses
from .layers import attend_in_each, joined

PREFIX = 'model.'       # of the stored names, before ours
Grid = tuple[int, int]  # rows and columns of patches of one picture or video frame

_ACTIVATION = 'gelu_pytorch_tanh'
_PROJECTOR_EPS = 1e-6   # not in any config.json
_PATCHES_PER_UNIT = 72000   # times layers, between two yields: about 5 ms of an H200


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
        self.qkv_weight: Tensor | None = None
        self.qkv_bias: Tensor | None = None
        self.register_load_state_dict_post_hook(lambda attention, _: attention._join())

    def _join(self) -> None:
        """Make three projections one; their parameters stay, as views of its own."""
        parts = (self.q_proj, self.k_proj, self.v_proj)
        for name in ('weight', 'bias'):
            whole = joined([getattr(part, name) for part in parts])
            for part, view in zip(parts, whole.chunk(3), strict=True):
                setattr(part, name, nn.Parameter(view, requires_grad=False))
            setattr(self, f'qkv_{name}', whole)

    def forward(self, x: Tensor) -> Tensor:
        """[n, patches, C]."""
        heads = F.linear(x, self.qkv_weight, self.qkv_bias).unflatten(-1, (3, self.heads, -1))
        return self.out_proj(attend_in_each(*heads.unbind(2)))


class _MLP(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda:           # there the product itself ends with this gelu
            inner = torch._addmm_activation(self.fc1.bias, x.flatten(0, -2), self.fc1.weight.T,
                                            use_gelu=True)
            return self.fc2(inner).view_as(x)
        return self.fc2(F.gelu(self.fc1(x), approximate='tanh'))


class _Layer(nn.Module):
    def __init__(self, config: VisionConfig):
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.self_attn = _Attention(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = _MLP(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class _Embeddings(nn.Module):
    """Patches, and a learned square grid of positions that is resized to a picture's grid."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        self.patch_embedding = nn.Linear(config.patch_values, config.hidden_size)
        self.position_embedding = nn.Embedding(config.num_patches, config.hidden_size)
        self.merge = config.spatial_merge_size

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

    def encoding(self, patches: Tensor, places: Tensor) -> Generator[None, None, Tensor]:
        x = self.embeddings.patch_embedding(patches) + places
        layers = self.encoder.layers
        ends = pauses(len(layers), _PATCHES_PER_UNIT // (x.shape[0] * x.shape[1]))
        for index, layer in enumerate(layers, 1):
            x = layer(x)
            if index in ends:
                yield
        return self.post_layernorm(x)


class _Projector(nn.Module):
    def __init__(self, config: VisionConfig, outputs: int):
        super().__init__()
        self.merged = config.hidden_size * config.spatial_merge_size**2
        self.norm = nn.LayerNorm(config.hidden_size, _PROJECTOR_EPS)
        self.linear_fc1 = nn.Linear(self.merged, config.projector_hidden_size)
        self.linear_fc2 = nn.Linear(config.projector_hidden_size, outputs)

    def forward(self, x: Tensor) -> Tensor:
        merged = self.norm(x).view(len(x), -1, self.merged)
        return self.linear_fc2(F.gelu(self.linear_fc1(merged)))


class Vision(nn.Module):
    """Tower and projector; `outputs` is the hidden size of the understanding tower."""

    def __init__(self, config: VisionConfig, outputs: int):
        super().__init__()
        self.config = config
        self.visual = _Tower(config)
        self.projector = _Projector(config, outputs)

    def places(self, grid: Grid) -> Tensor:
        """[patches, C] that tell patches of a grid apart."""
        return self.visual.embeddings.places(grid).to(self.projector.norm.weight.dtype)

    def encoding(self, patches: Tensor, places: Tensor) -> Generator[None, None, Tensor]:
        """Job that encodes pictures of one grid, of which `places` are; yields between layers.

        patches: [n, patches, values] as the checkpoint's processor cuts them. Returns
        [n, patches / 4, outputs]; a picture's tokens do not depend on what is beside it.
        """
        x = yield from self.visual.encoding(patches.to(places.dtype), places)
        return self.projector(x)

    def forward(self, patches: Tensor, grids: Iterable[Grid]) -> Tensor:
        """Encode pictures of any grids at once: packed [N, values] -> [N / 4, outputs]."""
        tokens, start = [], 0
        for grid, run in groupby(grids):
            end = start + len(list(run)) * grid[0] * grid[1]
            same = patches[start:end].unflatten(0, (-1, grid[0] * grid[1]))
            tokens.append(finish(self.encoding(same, self.places(grid))).flatten(0, 1))
            start = end
        return torch.cat(tokens)


def vision_shapes(config: VisionConfig, outputs: int) -> dict[str, tuple[int, ...]]:
    """Stored names and shapes of the vision encoder."""
    with torch.device('meta'):
        tensors = Vision(config, outputs).state_dict()
    return {PREFIX + name: tuple(tensor.shape) for name, tensor in tensors.items()}
