# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Prompts into the cache: pictures first, then fresh prompts a few at once, others in chunks."""
from __future__ import annotations

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from ..model.cosmos3 import Cosmos3
from ..model.decoder import Decoder
from ..model.prompt_batch import PromptBatch, padded_length
from ..model.upload import upload
from .open_question import OpenQuestion
from .picture_tokens import PictureTokens

PROMPTS_AT_ONCE = 4         # a power of two
CLOSE = 64                  # tokens by which prompts that are read together may differ
START_WORTH_KEEPING = 512   # tokens: fewer are read sooner than the rest is, call by call


class PromptReader:
    """Reads the prompts of streams into their slots of a decoder.

    Prompts of at most `chunk` tokens are read whole, together with others of about their length;
    what is left of others, chunk by chunk. At most two chunks are read at once, and three between
    two steps: new questions wait for few steps, and answers that are written stand still for
    some 40 ms of an H200.
    """

    def __init__(self, model: Cosmos3, decoder: Decoder, chunk: int):
        self._decoder, self._chunk, self._device = decoder, chunk, model.device
        self._pictures = PictureTokens(model.vision, model.processor, model.device)

    @property
    def most(self) -> int:
        """Tokens between two steps of those that write."""
        return 3 * self._chunk

    def tokens(self, streams: Sequence[OpenQuestion]) -> int:
        """How many tokens are read when these are read on."""
        return sum(min(self._chunk, len(stream.prompt.ids) - stream.read) for stream in streams)

    def least_start(self, tokens: int) -> int:
        """How many tokens a cached start of such a prompt must have to be of use."""
        recorded = self._device.type == 'cuda' and tokens <= self._chunk
        return START_WORTH_KEEPING if recorded else 1

    def together(self, streams: Sequence[OpenQuestion]) -> list[OpenQuestion]:
        """The first of these, and those that may be read with it: a power of two."""
        first = streams[0]
        if first.alone or not self._whole(first):
            return [first]
        size = len(first.prompt.ids)
        close = [stream for stream in streams if self._whole(stream) and not stream.alone
                 and abs(len(stream.prompt.ids) - size) < CLOSE][:PROMPTS_AT_ONCE]
        longest = max(len(stream.prompt.ids) for stream in close)
        count = min(len(close), max(1, 2 * self._chunk // longest))
        return close[:1 << (count.bit_length() - 1)]

    def read(self, streams: Sequence[OpenQuestion]) -> Generator[None, None, Tensor]:
        """Job that reads on in streams that may be read together; yields between its parts.

        Returns the logits after what was read, [streams, vocabulary], until it is used again.
        """
        first = streams[0]
        whole = self._whole(first)
        start, end = first.read, first.read + self._chunk
        spans = [span for stream in streams for span in stream.spans(start, end)
                 if span.key not in stream.pictures]
        encoded = yield from self._pictures.encoding(spans)
        for stream in streams:
            known = stream.pictures | encoded
            stream.pictures = {span.key: known[span.key] for span in stream.spans(start, end)}
        if whole:
            return (yield from self._read_whole(streams))
        return self._read_chunk(first)

    def _whole(self, stream: OpenQuestion) -> bool:
        return stream.read == 0 and len(stream.prompt.ids) <= self._chunk

    def _read_whole(self, streams: Sequence[OpenQuestion]) -> Generator[None, None, Tensor]:
        length = padded_length(max(len(stream.prompt.ids) for stream in streams), self._device)
        batch = PromptBatch.of([stream.prompt for stream in streams],
                               [stream.slot for stream in streams], length, self._decoder.length,
                               self._device)
        x = self._decoder.embed(batch.ids)
        for row, stream in enumerate(streams):
            for span in stream.prompt.spans:
                place = row * length + span.start
                x[place:place + span.end - span.start] = stream.pictures[span.key]
        logits = yield from self._decoder.read(batch, x)
        for stream in streams:
            stream.read = len(stream.prompt.ids)
        return logits

    def _read_chunk(self, stream: OpenQuestion) -> Tensor:
        prompt, start = stream.prompt, stream.read
        end = min(start + self._chunk, len(prompt.ids))
        numbers = upload(torch.cat([torch.from_numpy(prompt.ids[None, start:end]),
                                    prompt.positions[:, start:end]]), self._device)
        x = self._decoder.embed(numbers[0])
        for span in stream.spans(start, end):
            low, high = max(span.start, start), min(span.end, end)
            x[low - start:high - start] = stream.pictures[span.key][low - span.start:
                                                                    high - span.start]
        logits = self._decoder.prefill(stream.slot, start, x, *self._decoder.rotary(numbers[1:]))
        stream.read = end
        return logits
