# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Which stream has which slot of the cache, and what text the slots hold for others to reuse."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Copy:
    """The first `count` tokens of slot `source` are wanted in slot `target`."""

    source: int
    target: int
    count: int


@dataclass(frozen=True)
class Grant:
    """A slot, the copies to make first, in order, and the tokens that it then holds."""

    slot: int
    copies: tuple[Copy, ...]
    cached: int


class Slots:
    """Contents are int64 keys of tokens, equal where text or picture is equal.

    The lowest free slot is given, so that few streams make a small batch; what a slot held moves
    to the free slot unused for longest, if most of it would be lost.
    """

    def __init__(self, count: int):
        self._contents = [np.empty(0, np.int64)] * count
        self._free = list(range(count))     # the one unused for longest first

    def take(self, keys: np.ndarray, least: int = 1) -> Grant | None:
        """A slot for a prompt, None if all are taken.

        A prompt's last token is never cached, nor a start of fewer than `least` tokens.
        """
        if not self._free:
            return None
        slot = min(self._free)
        shared = [_common(content, keys[:-1]) for content in self._contents]
        shared = [count if count >= least else 0 for count in shared]
        source = max(range(len(shared)), key=lambda other: (shared[other], other == slot))
        cached = shared[source]
        copies = self._save(slot, source, shared[slot])
        if source != slot and cached:
            copies.append(Copy(source, slot, cached))
        self._free.remove(slot)
        self._contents[slot] = keys[:cached]
        return Grant(slot, tuple(copies), cached)

    def hold(self, slot: int, keys: np.ndarray) -> None:
        """Note what a slot holds by now."""
        self._contents[slot] = keys

    def release(self, slot: int) -> None:
        """Free a slot; its content stays until another stream needs the room."""
        self._free.append(slot)

    def _save(self, slot: int, source: int, kept: int) -> list[Copy]:
        """Move the content of a slot of which only `kept` tokens would be left."""
        spare = next((other for other in self._free if other not in (slot, source)), None)
        content = self._contents[slot]
        if spare is None or len(content) <= 2 * kept:
            return []
        self._contents[spare] = content
        self._free.remove(spare)
        self._free.append(spare)
        return [Copy(slot, spare, len(content))]


def _common(a: np.ndarray, b: np.ndarray) -> int:
    """Length of the common start."""
    size = min(len(a), len(b))
    different = np.flatnonzero(a[:size] != b[:size])
    return int(different[0]) if len(different) else size
