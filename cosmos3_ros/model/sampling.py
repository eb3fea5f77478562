# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Choose tokens on the device, each row by its own rule and its own random numbers."""
from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

_MULTIPLIERS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)     # of splitmix64, as signed numbers
_GOLDEN = -0x61C8864680B583EB
_MASK = (1 << 24) - 1                                         # fp32 holds 24 bits exactly
_COLDEST = 1e-20        # takes the likeliest token as smaller ones do; logits over it stay finite


@dataclass(frozen=True)
class Choice:
    """How one stream chooses; see Sampling."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    @property
    def random(self) -> bool:
        return self.temperature > 0


@dataclass(frozen=True)
class Sampling:
    """How each row chooses, as tensors [rows].

    `temperature`: 0 takes the likeliest token. Then, of the tokens by falling probability, the
    first `top_k` (0: all) and of these the fewest that hold `top_p` of the probability. A row's
    random numbers depend on its `seed` and `step` alone, so not on who shares the batch.
    """

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    seed: Tensor
    step: Tensor

    def rows(self, count: int) -> Sampling:
        """The first rows, sharing memory."""
        return Sampling(*(getattr(self, field.name)[:count] for field in fields(self)))


def sample(logits: Tensor, sampling: Sampling, random: bool) -> Tensor:
    """fp32 [rows, vocabulary] -> [rows]; without `random` every row takes its likeliest token."""
    likeliest = logits.argmax(-1)
    if not random:
        return likeliest
    heat = torch.where(sampling.temperature > 0, sampling.temperature, 1.0).clamp(min=_COLDEST)
    ordered, tokens = (logits / heat[:, None]).sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(logits.shape[1], device=logits.device)
    top_k = torch.where(sampling.top_k > 0, sampling.top_k, logits.shape[1])
    ordered = ordered.masked_fill(rank >= top_k[:, None], -torch.inf)
    share = ordered.softmax(-1)
    before = share.cumsum(-1) - share
    share = share * ((before < sampling.top_p[:, None]) | (rank == 0))
    reached = share.cumsum(-1)
    target = uniform(sampling.seed, sampling.step)[:, None] * reached[:, -1:]
    last = ((share > 0).sum(-1, keepdim=True) - 1).clamp(min=0)     # NaN: no share is above 0
    choice = torch.searchsorted(reached, target, right=True).minimum(last)
    return torch.where(sampling.temperature > 0, tokens.gather(1, choice)[:, 0], likeliest)


def uniform(seed: Tensor, step: Tensor) -> Tensor:
    """fp32 in [0, 1) of integer seeds and steps: the splitmix64 generator, started at each seed."""
    x = _mix(_mix(seed + _GOLDEN) + step * _GOLDEN)
    return ((x >> 40) & _MASK).float() / (_MASK + 1)


def _mix(x: Tensor) -> Tensor:
    """The output function of splitmix64 (Steele, Lea, Flood 2014), on signed 64-bit numbers."""
    x = (x ^ _shift(x, 30)) * _MULTIPLIERS[0]
    x = (x ^ _shift(x, 27)) * _MULTIPLIERS[1]
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Unsigned shift to the right."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
