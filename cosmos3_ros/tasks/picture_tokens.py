# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures as tokens: encoded once, the most recent ones kept."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator

import torch
from torch import Tensor

from ..model.processor import Processor, Span
from ..model.recordings import Recordings
from ..model.upload import upload
from ..model.vision import Grid, Vision

PICTURES_AT_ONCE = 4        # a power of two
PATCHES_AT_ONCE = 5120      # of these: four pictures of 640x480
TOKENS_KEPT = 32768         # Edge in bf16: 134 MB
GRIDS_KEPT = 16             # whose places stay on the device (Edge, 640x480: 3 MB)


class PictureTokens:
    """Tokens of pictures and video frames by content."""

    def __init__(self, vision: Vision, processor: Processor, device: torch.device):
        self._vision, self._device = vision, device
        self._cutter = processor.cutter and processor.cutter.on(device)
        self._kept: OrderedDict[int, Tensor] = OrderedDict()
        self._places: OrderedDict[Grid, Tensor] = OrderedDict()
        self._recordings = Recordings()

    def get(self, span: Span) -> Tensor | None:
        """[tokens, hidden] of a picture, None if it is not encoded."""
        if span.key in self._kept:
            self._kept.move_to_end(span.key)
        return self._kept.get(span.key)

    def encoding(self, spans: Iterable[Span]) -> Generator[None, None, dict[int, Tensor]]:
        """Job: the tokens of these pictures by key; yields between the batches it encodes."""
        found: dict[int, Tensor] = {}
        missing: dict[int, Span] = {}
        for span in spans:
            known = self.get(span)
            if known is None:
                missing[span.key] = span
            else:
                found[span.key] = known
        for batch in _batches(missing.values()):
            tokens = yield from self._encode(batch)
            for span, own in zip(batch, tokens, strict=True):
                found[span.key] = self._kept[span.key] = own.clone()    # not all of the batch
            self._forget()
            yield
        return found

    def _encode(self, batch: list[Span]) -> Generator[None, None, Tensor]:
        """[n, tokens, hidden] of pictures of one grid, until the next are encoded."""
        pixels = torch.stack([upload(span.pixels, self._device) for span in batch])
        key = batch[0].grid, len(batch), pixels.dtype
        return (yield from self._recordings.run(key, self._reading, pixels,
                                                self._places_of(batch[0].grid)))

    def _reading(self, pixels: Tensor, places: Tensor) -> Generator[None, None, Tensor]:
        patches = self._cutter.patches(pixels) if pixels.dtype == torch.uint8 else pixels
        return (yield from self._vision.encoding(patches, places))

    def _places_of(self, grid: Grid) -> Tensor:
        if grid not in self._places:
            self._places[grid] = self._vision.places(grid)
        self._places.move_to_end(grid)
        while len(self._places) > GRIDS_KEPT:
            self._places.popitem(last=False)
        return self._places[grid]

    def _forget(self) -> None:
        while sum(len(value) for value in self._kept.values()) > TOKENS_KEPT:
            self._kept.popitem(last=False)


def _batches(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Pictures of equal grids, in powers of two: so that few batches are new."""
    alike: dict[tuple[Grid, torch.dtype], list[Span]] = {}
    for span in spans:
        alike.setdefault((span.grid, span.pixels.dtype), []).append(span)
    for (grid, _), waiting in alike.items():
        most = min(PICTURES_AT_ONCE, max(1, PATCHES_AT_ONCE // (grid[0] * grid[1])))
        while waiting:
            count = 1 << (min(most, len(waiting)).bit_length() - 1)
            yield waiting[:count]
            waiting = waiting[count:]
