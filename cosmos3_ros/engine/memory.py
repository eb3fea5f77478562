# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the tasks of a process will take of a device's memory, before anything is loaded."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
import math

from diffusers import AutoencoderKLWan
import torch
from torch import nn

from ..model.branches import KeyValues
from ..model.checkpoint import Checkpoint
from ..model.config import TransformerConfig
from ..model.cosmos3 import PREFIXES_KEPT
from ..model.kernels.quantize import FP8
from ..model.names import FP32
from ..model.positions import TEMPORAL_COMPRESSION, Layout
from ..model.vae import VAE, StreamingDecoder
from ..tasks.canvas import CANVASES, LATENT_STRIDE
from ..tasks.picture_tokens import PATCHES_AT_ONCE, TOKENS_KEPT
from ..tasks.policy import PolicyRecipe
from ..tasks.rollout import RolloutRecipe
from . import working_space

GB = 1e9
BRANCHES = 2            # of guidance
PROMPT_TOKENS = 256     # of a prompt of the generation tower; that of DROID has about 150
PREFILL_TOKENS = 2048   # of questions that are read at once


class MemoryPlanError(ValueError):
    """What is asked for does not fit; names the parts and the numbers."""


@dataclass
class Plan:
    """Bytes by part. `shareable`: of the weights, what two checkpoints may have in common."""

    parts: dict[str, int] = field(default_factory=dict)
    shareable: int = 0

    @property
    def most(self) -> int:
        return sum(self.parts.values())

    @property
    def least(self) -> int:
        return self.most - self.shareable

    def __str__(self) -> str:
        parts = ', '.join(f'{name} {size / GB:.2f}' for name, size in self.parts.items())
        shared = f' ({self.least / GB:.2f} if equal tensors are shared)' if self.shareable else ''
        return f'at most {self.most / GB:.2f} GB{shared}: {parts}'

    def check(self, free: int, device: str) -> None:
        """Raise MemoryPlanError if even the least does not fit."""
        if self.least > free:
            raise MemoryPlanError(
                f'{self}; {free / GB:.2f} GB are free on {device}: run fewer nodes, or lower '
                'chunks_in_flight, question_slots, question_length or session_limit')


def plan(checkpoints: Mapping[str, Checkpoint], dtype: torch.dtype, *, chunks: int = 0,
         slots: int = 0, length: int = 0, fp8_decode: bool = False, sessions: int = 0,
         graphs: bool = False) -> Plan:
    """Plan for opened checkpoints, by name: `policy`, and `base` for all else or for both.

    `chunks` in flight, `slots` of `length` tokens for questions, which `fp8_decode` gives weights
    of their own, `sessions` videos of the default recipe. `graphs`: work that comes again is
    recorded, and its memory kept.
    """
    if dtype == FP8:
        dtype = torch.bfloat16          # what weights are loaded in, and rounded from
    result, known = Plan(), {}
    for name, checkpoint in checkpoints.items():
        sizes = _weights(checkpoint, dtype)
        result.parts[f'weights of {name}'] = sum(sizes.values())
        result.shareable += sum(size for key, size in sizes.items() if known.get(key) == size)
        known |= sizes
    prompts = sum(KeyValues.bytes_per_token(checkpoint.config, dtype)
                  for checkpoint in checkpoints.values()) * PREFIXES_KEPT * PROMPT_TOKENS
    if chunks or sessions:
        result.parts['prompts'] = prompts
    if chunks and (driver := checkpoints.get('policy') or checkpoints.get('base')):
        _plan_policy(result.parts, driver, dtype, chunks, graphs)
    base = checkpoints.get('base')
    if base and slots:
        _plan_reasoner(result.parts, base, dtype, slots, length)
        if fp8_decode:
            result.parts['fp8 weights'] = _decode_weights(base.config)
    if base and sessions:
        _plan_world_model(result.parts, base, dtype, sessions)
    return result


def _plan_policy(parts: dict[str, int], checkpoint: Checkpoint, dtype: torch.dtype, chunks: int,
                 graphs: bool) -> None:
    """Keys and values of each chunk in flight, with what its graphs work in; an eager pass."""
    config, recipe = checkpoint.config, PolicyRecipe()
    height, width = max(CANVASES[recipe.tier].values(), key=math.prod)
    layout = Layout((recipe.num_frames - 1) // TEMPORAL_COMPRESSION + 1, height // LATENT_STRIDE,
                    width // LATENT_STRIDE, recipe.fps, rows=recipe.num_frames)
    tokens = BRANCHES * layout.tokens(config.latent_patch_size)
    work = working_space.generation_pass(config, tokens, dtype)
    read = tokens + BRANCHES * PROMPT_TOKENS
    parts['chunks'] = chunks * (read * KeyValues.bytes_per_token(config, dtype) + graphs * work)
    parts['working space of policy'] = work


def _plan_reasoner(parts: dict[str, int], checkpoint: Checkpoint, dtype: torch.dtype, slots: int,
                   length: int) -> None:
    """Slots, pictures seen, and the largest of its units beside the one graph pool of its steps."""
    config = checkpoint.config
    parts['questions'] = slots * (length + 1) * KeyValues.bytes_per_token(config, dtype)
    work = working_space.prompt_pass(config, PREFILL_TOKENS, dtype)
    if checkpoint.vision_config is not None:
        parts['pictures'] = TOKENS_KEPT * config.hidden_size * dtype.itemsize
        work = max(work, working_space.pictures_pass(
            checkpoint.vision_config, config.hidden_size, PATCHES_AT_ONCE, dtype))
    parts['working space of reasoner'] = work + working_space.token_choice(config, slots)


def _decode_weights(config: TransformerConfig) -> int:
    """A byte for each weight of the products of the understanding tower, and for its head."""
    heads = 2 * (config.num_attention_heads + config.num_key_value_heads) * config.head_dim
    layer = config.hidden_size * (heads + 2 * config.intermediate_size)
    return config.num_hidden_layers * layer + config.hidden_size * config.vocab_size


def _plan_world_model(parts: dict[str, int], checkpoint: Checkpoint, dtype: torch.dtype,
                      sessions: int) -> None:
    """What a video remembers, and the larger of its passes and its decoder, for each session.

    A new prompt needs keys and values twice until its window is done, as a latent that is being
    decoded does the decoder's features.
    """
    config, recipe = checkpoint.config, RolloutRecipe()
    vae, size = _meta_vae(checkpoint, dtype), recipe.latent_size
    tokens = Layout(1, *size, recipe.fps).tokens(config.latent_patch_size)
    latents = recipe.anchor + recipe.history + recipe.window
    read = 2 * BRANCHES * (PROMPT_TOKENS + latents * tokens)
    features = StreamingDecoder.device_bytes(vae, *size)
    parts['videos'] = sessions * (
        read * KeyValues.bytes_per_token(config, dtype) + features)
    parts['working space of world_model'] = sessions * max(
        working_space.generation_pass(config, BRANCHES * recipe.window * tokens, dtype),
        working_space.decoding(vae, *size) + features)


def _meta_vae(checkpoint: Checkpoint, dtype: torch.dtype) -> VAE:
    with torch.device('meta'):
        module = AutoencoderKLWan.from_config(dict(checkpoint.vae_config))
        return VAE(nn.Module.to(module, dtype))         # diffusers' own `to` writes a warning


def _weights(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, int]:
    parts: Sequence = [('transformer', checkpoint.transformer), ('vae', checkpoint.vae)]
    if checkpoint.vision is not None:
        parts = [*parts, ('vision', checkpoint.vision)]
    return {f'{part}.{name}': math.prod(header.shape) * (
        4 if name.startswith(FP32) else dtype.itemsize)
        for part, source in parts for name, header in source.headers.items()}
