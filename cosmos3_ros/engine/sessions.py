# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions that stay on the device between requests."""
from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
from dataclasses import dataclass
import threading
import time
from typing import Generic, TypeVar

import psutil
import torch

S = TypeVar('S')


class SessionError(ValueError):
    """A session that cannot be opened or found; names the session and the numbers."""


def free_bytes(device: torch.device) -> int:
    """Memory that can still be taken on a device, what PyTorch holds in reserve included."""
    if device.type != 'cuda':
        return psutil.virtual_memory().available
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reserve


@dataclass
class _Entry(Generic[S]):
    session: S
    size: int
    used: float
    busy: bool = False
    filled: bool = False        # has served a request, so its memory is taken


class SessionPool(Generic[S]):
    """At most `limit` sessions, each dropped after `idle` seconds without use. Thread-safe.

    A session frees its memory when nothing holds it any more.
    """

    def __init__(self, device: torch.device, limit: int, idle: float,
                 clock: Callable[[], float] = time.monotonic):
        self._device = device
        self._limit = limit
        self._idle = idle
        self._clock = clock
        self._entries: dict[str, _Entry[S]] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def open(self, name: str, size: int, create: Callable[[], S]) -> S:
        """Create a session that keeps `size` bytes; raises SessionError if it does not fit."""
        self.expire()
        with self._lock:
            if name in self._entries:
                raise SessionError(f'session {name!r} is open already; go on with it or close it')
            if len(self._entries) >= self._limit:
                raise SessionError(f'session {name!r}: {len(self._entries)} sessions are open, the '
                                   f'limit; close one of {", ".join(self._entries)}')
            free = free_bytes(self._device) - self._promised()
            if size > free:
                raise SessionError(
                    f'session {name!r} needs {size / 1e9:.2f} GB on {self._device} and '
                    f'{free / 1e9:.2f} GB are free; ask for a smaller picture, history or window, '
                    'or close a session')
            self._entries[name] = _Entry(create(), size, self._clock())
            return self._entries[name].session

    @contextlib.contextmanager
    def use(self, name: str) -> Iterator[S]:
        """The session for one request; raises SessionError if it is not open or in use."""
        with self._lock:
            entry = self._find(name)
            if entry.busy:
                raise SessionError(f'session {name!r} serves another request; cancel that first')
            entry.busy = True
        try:
            yield entry.session
        finally:
            entry.busy, entry.filled, entry.used = False, True, self._clock()

    def peek(self, name: str) -> S:
        """The session, in use or not; raises SessionError if it is not open."""
        with self._lock:
            return self._find(name).session

    def close(self, name: str) -> int:
        """Let go of a session; returns its bytes. Raises SessionError as `use` does."""
        with self._lock:
            entry = self._find(name)
            if entry.busy:
                raise SessionError(f'session {name!r} serves a request; cancel that first')
            del self._entries[name]
            return entry.size

    def expire(self) -> list[str]:
        """Let go of sessions that were idle too long; returns their names."""
        with self._lock:
            oldest = self._clock() - self._idle
            expired = [name for name, entry in self._entries.items()
                       if not entry.busy and entry.used < oldest]
            for name in expired:
                del self._entries[name]
            return expired

    def _promised(self) -> int:
        """Bytes that sessions which are open will take with their first request."""
        return sum(entry.size for entry in self._entries.values() if not entry.filled)

    def _find(self, name: str) -> _Entry[S]:
        if name not in self._entries:
            raise SessionError(f'session {name!r} is not open; open sessions: '
                               f'{", ".join(self._entries) or "none"}')
        return self._entries[name]
