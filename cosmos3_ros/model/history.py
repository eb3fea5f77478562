# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a streamed rollout remembers of its own video, as keys and values."""
from __future__ import annotations

from .branches import KeyValues, Prefix


class History(KeyValues):
    """Keys and values of a prompt and of the latent frames that are kept of a video.

    The first `anchor` latents never leave; of the others the newest `budget` are kept. Every
    latent has `tokens` tokens. A window is written behind the end (`Transformer.write`) and kept
    by `commit`; until then it can be overwritten without a trace.
    """

    def __init__(self, prefix: Prefix, tokens: int, window: int, budget: int, anchor: int):
        super().__init__(prefix, (anchor + budget + window) * tokens)
        self.tokens = tokens
        self.window = window
        self.budget = budget
        self.anchor = anchor
        self.latents = 0                    # committed so far
        self._slots: list[int] = []         # the latent in each slot behind the prompt

    @property
    def kept(self) -> set[int]:
        """Indices of the latents that are read."""
        return set(self._slots)

    def commit(self, count: int) -> None:
        """Keep the window of `count` latents that was written behind the end."""
        base, tail = self.length - len(self._slots) * self.tokens, self.length
        total = self.latents + count
        kept = {*range(min(self.anchor, total)), *range(max(0, total - self.budget), total)}
        free = [slot for slot, latent in enumerate(self._slots) if latent not in kept]
        for latent in range(self.latents, total):
            if latent not in kept:
                continue
            if not free:
                free.append(len(self._slots))
                self._slots.append(latent)
            slot = free.pop(0)
            self._slots[slot] = latent
            self._move(tail + (latent - self.latents) * self.tokens, base + slot * self.tokens)
        self.latents = total
        self.length = base + len(self._slots) * self.tokens

    def with_prompt(self, prefix: Prefix) -> History:
        """The same video after another prompt; this one stays as it is."""
        other = History(prefix, self.tokens, self.window, self.budget, self.anchor)
        kept = len(self._slots) * self.tokens
        for new, old in ((other.keys, self.keys), (other.values, self.values)):
            new[:, prefix.length:prefix.length + kept] = old[:, self.length - kept:self.length]
        other.latents, other._slots = self.latents, list(self._slots)
        other.length = prefix.length + kept
        return other

    def _move(self, source: int, target: int) -> None:
        if source != target:
            for buffer in (self.keys, self.values):
                buffer[:, target:target + self.tokens] = buffer[:, source:source + self.tokens]
