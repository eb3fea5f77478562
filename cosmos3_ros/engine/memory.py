# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the tasks of a process will take of a device's memory, before anything is loaded."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
import math

import torch

from ..model.checkpoint import Checkpoint
from ..model.names import FP32
from ..model.transformer import KeyValues
from ..tasks.rollout import RolloutRecipe

GB = 1e9


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
                'question_slots, question_length or session_limit')


def plan(checkpoints: Mapping[str, Checkpoint], dtype: torch.dtype, *, slots: int = 0,
         length: int = 0, sessions: int = 0) -> Plan:
    """Plan for opened checkpoints, by name (`base` holds slots and sessions).

    `slots` of `length` tokens for questions, `sessions` videos of the default recipe. Working
    space of a step comes on top.
    """
    result, known = Plan(), {}
    for name, checkpoint in checkpoints.items():
        sizes = _weights(checkpoint, dtype)
        result.parts[f'weights of {name}'] = sum(sizes.values())
        result.shareable += sum(size for key, size in sizes.items() if known.get(key) == size)
        known |= sizes
    if 'base' in checkpoints:
        config = checkpoints['base'].config
        per_token = KeyValues.bytes_per_token(config, dtype)
        if slots:
            result.parts['questions'] = slots * (length + 1) * per_token
        if sessions:
            result.parts['videos'] = sessions * _history(RolloutRecipe(), config, per_token)
    return result


def _weights(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, int]:
    parts: Sequence = [('transformer', checkpoint.transformer), ('vae', checkpoint.vae)]
    if checkpoint.vision is not None:
        parts = [*parts, ('vision', checkpoint.vision)]
    return {f'{part}.{name}': math.prod(header.shape) * (
        4 if name.startswith(FP32) else dtype.itemsize)
        for part, source in parts for name, header in source.headers.items()}


def _history(recipe: RolloutRecipe, config, per_token: int) -> int:
    """Keys and values of a session; a new prompt needs them twice until its window is done."""
    height, width = recipe.latent_size
    patch = config.latent_patch_size
    tokens = -(-height // patch) * -(-width // patch)
    return 2 * 2 * (recipe.anchor + recipe.history + recipe.window) * tokens * per_token
