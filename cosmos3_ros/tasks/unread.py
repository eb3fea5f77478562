# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens on their way from the device to the host."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..model.upload import Download
from .open_question import OpenQuestion


@dataclass
class _Sent:
    """A token for each of `streams`, at `rows` of `tokens`."""

    number: int
    streams: Sequence[OpenQuestion]
    rows: Sequence[int]
    tokens: Download


class Unread:
    """Tokens of some passes, in the order in which they were sent."""

    def __init__(self) -> None:
        self._sent: deque[_Sent] = deque()
        self._count = 0

    def send(self, streams: Sequence[OpenQuestion], rows: Sequence[int], tokens: Tensor) -> int:
        """Start the one copy of tokens to the host; returns its number, from 1 on."""
        self._count += 1
        self._sent.append(_Sent(self._count, streams, rows, Download(tokens)))
        return self._count

    def take(self, number: int) -> Iterator[tuple[OpenQuestion, int]]:
        """All tokens that have arrived, each with its stream; waits for those up to `number`."""
        while self._sent and (self._sent[0].number <= number or self._sent[0].tokens.arrived):
            sent = self._sent.popleft()
            values = sent.tokens.get().tolist()
            yield from zip(sent.streams, (values[row] for row in sent.rows), strict=True)
