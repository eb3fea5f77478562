# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures as tokens: encoded once, the most recent ones kept."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import torch
from torch import Tensor

from ..model.processor import Span
from ..model.vision import Vision

PATCHES_AT_ONCE = 4096      # encoded between two yields: three pictures of 640x480
TOKENS_KEPT = 32768         # Edge in bf16: 134 MB


class PictureTokens:
    """Tokens of pictures and video frames by content."""

    def __init__(self, vision: Vision, device: torch.device):
        self._vision, self._device = vision, device
        self._kept: OrderedDict[int, Tensor] = OrderedDict()

    def get(self, span: Span) -> Tensor | None:
        """[tokens, hidden] of a picture, None if it is not encoded."""
        if span.key in self._kept:
            self._kept.move_to_end(span.key)
        return self._kept.get(span.key)

    def encode(self, spans: Iterable[Span]) -> dict[int, Tensor]:
        """Encode the first of these pictures, as many as one step may take; by key."""
        batch: dict[int, Span] = {}
        for span in spans:
            patches = sum(len(other.pixels) for other in batch.values()) + len(span.pixels)
            if batch and patches > PATCHES_AT_ONCE:
                break
            batch[span.key] = span
        pixels = torch.cat([span.pixels for span in batch.values()]).to(self._device)
        tokens = self._vision(pixels, [span.grid for span in batch.values()])
        sizes = [span.end - span.start for span in batch.values()]
        encoded = dict(zip(batch, tokens.split(sizes), strict=True))
        for key, value in encoded.items():
            self._kept[key] = value.clone()     # else one picture would keep its whole batch
        while sum(len(value) for value in self._kept.values()) > TOKENS_KEPT:
            self._kept.popitem(last=False)
        return encoded
