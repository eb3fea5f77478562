# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A loaded checkpoint, ready on its device."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from .branches import Branches, BranchPool, KeyValues, Prefix
from .config import TransformerConfig
from .positions import Layout
from .processor import Processor
from .tokenizer import PromptTokenizer
from .transformer import Transformer
from .vae import VAE
from .vision import Vision

PREFIXES_KEPT = 16      # prompts whose keys and values stay on the device (Edge: 115 KB a token)


@dataclass
class Cosmos3:
    """The network, its VAE and its tokenizer; what answers questions too, where there is one.

    `dtype` is the compute type; positions, the time embedder and sampling stay fp32.
    """

    name: str
    transformer: Transformer
    vae: VAE
    tokenizer: PromptTokenizer
    device: torch.device
    dtype: torch.dtype
    vision: Vision | None = None
    processor: Processor | None = None
    _prefixes: OrderedDict[tuple[int, ...], Prefix] = field(default_factory=OrderedDict)
    _pool: BranchPool = field(default_factory=BranchPool)

    @property
    def config(self) -> TransformerConfig:
        return self.transformer.config

    def prefix(self, token_ids: list[int]) -> Prefix:
        """Keys and values of a prompt: computed once, the most recent ones kept."""
        key = tuple(token_ids)
        if key not in self._prefixes:
            ids = torch.tensor(token_ids, device=self.device)
            self._prefixes[key] = self.transformer.prefill(ids)
        self._prefixes.move_to_end(key)
        while len(self._prefixes) > PREFIXES_KEPT:
            self._prefixes.popitem(last=False)
        return self._prefixes[key]

    @contextmanager
    def branches(self, prompts: Sequence[list[int]], layout: Layout) -> Iterator[Branches]:
        """A generation after each of the prompts, with room for its tokens, until it ends."""
        prefixes = [self.prefix(token_ids) for token_ids in prompts]

        def make() -> Branches:
            tokens = layout.tokens(self.config.latent_patch_size)
            return self.transformer.branches(
                [KeyValues(prefix, tokens) for prefix in prefixes], layout,
                [self.transformer.start(prefix) for prefix in prefixes])
        with self._pool.lend(prefixes, layout, make) as branches:
            yield branches
