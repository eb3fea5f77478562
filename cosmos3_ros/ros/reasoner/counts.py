# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of the questions, for /diagnostics."""
from __future__ import annotations

from collections import Counter
import threading
import time

from cosmos3_ros import msg
from cosmos3_ros.ros.diagnostics import Percentiles, Status


class Counts:
    """Counts since the node began; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: Counter[str] = Counter()
        self._first = Percentiles()
        self._tokens, self._looked = 0, (time.monotonic(), 0)
        self._refusal = ''

    def wrote(self, tokens: int) -> None:
        """Count tokens that were written."""
        with self._lock:
            self._tokens += tokens

    def ended(self, kind: str, answer: msg.Answer) -> None:
        """Count an end: answered, cancelled, refused or failed."""
        with self._lock:
            self._ends[kind] += 1
            if kind == 'answered':
                self._first.add(answer.time_to_first_token * 1e3)
            elif kind in ('refused', 'failed'):
                self._refusal = answer.error

    def report(self, status: Status, opened: int) -> None:
        """Set the figures; tokens per second are those since the last report."""
        now = time.monotonic()
        with self._lock:
            (before, tokens), self._looked = self._looked, (now, self._tokens)
            rate = (self._tokens - tokens) / (now - before)
            values = {
                'open': opened, 'tokens per second': rate,
                **{kind: self._ends[kind]
                   for kind in ('answered', 'cancelled', 'refused', 'failed')},
                'time to first token p50 (ms)': self._first.p50,
                'time to first token p99 (ms)': self._first.p99,
                'last refusal': self._refusal or 'none'}
        for name, value in values.items():
            status.value(name, value)
