# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A bounded stream from the engine's thread to a reader."""
from __future__ import annotations

from collections import deque
import threading
from typing import Generic, TypeVar

T = TypeVar('T')


class Stream(Generic[T]):
    """Items in order; when the reader is slow the oldest are dropped, the writer never waits."""

    def __init__(self, size: int):
        self._items: deque[T] = deque(maxlen=size)
        self._changed = threading.Condition()
        self._ended = False

    def put(self, item: T) -> None:
        """Add an item, dropping the oldest if the stream is full."""
        with self._changed:
            self._items.append(item)
            self._changed.notify()

    def end(self) -> None:
        """No more items will come."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def get(self) -> T | None:
        """Wait for the next item; None once the stream has ended and is empty."""
        with self._changed:
            while not (self._items or self._ended):
                self._changed.wait()
            return self._items.popleft() if self._items else None
