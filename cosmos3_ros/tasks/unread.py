# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens on their way from the device to the host."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .open_question import OpenQuestion


@dataclass
class _Sent:
    """A token for each of `streams`, at `rows` of `tokens`, once `ready`."""

    streams: Sequence[OpenQuestion]
    rows: Sequence[int]
    tokens: Tensor
    ready: torch.cuda.Event | None


class Unread:
    """Tokens of some steps, in the order in which they were sent."""

    def __init__(self) -> None:
        self._sent: deque[_Sent] = deque()

    def send(self, streams: Sequence[OpenQuestion], rows: Sequence[int], tokens: Tensor) -> None:
        """Start the one copy of tokens to the host."""
        ready = torch.cuda.Event() if tokens.is_cuda else None
        tokens = tokens.to('cpu', non_blocking=True)
        if ready is not None:
            ready.record()
        self._sent.append(_Sent(streams, rows, tokens, ready))

    def arrived(self, keep: int) -> Iterator[tuple[OpenQuestion, int]]:
        """Wait for the tokens of all but the newest `keep` steps; each with its stream."""
        while len(self._sent) > keep:
            sent = self._sent.popleft()
            if sent.ready is not None:
                sent.ready.synchronize()
            values = sent.tokens.tolist()
            yield from zip(sent.streams, (values[row] for row in sent.rows), strict=True)
