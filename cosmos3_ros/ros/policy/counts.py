# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the policy node counts."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
import time

from cosmos3_ros.ros.diagnostics import Percentiles


@dataclass
class Counts:
    """Figures since activation; latencies in ms."""

    chunks: int = 0
    chunk_latency: Percentiles = field(default_factory=Percentiles)
    observation_age: Percentiles = field(default_factory=Percentiles)
    dropped: Counter = field(default_factory=Counter)
    fault: tuple[float, str, str] | None = None     # when, code, why: the newest drop

    def drop(self, code: str, text: str) -> None:
        """Count a drop and remember why."""
        self.dropped[code] += 1
        self.fault = (time.monotonic(), code, text)

    def statistics(self) -> dict:
        """All figures as plain values."""
        def both(values: Percentiles) -> dict[str, float]:
            return {'p50': values.p50, 'p99': values.p99}
        return {'chunks': self.chunks, 'chunk_latency_ms': both(self.chunk_latency),
                'observation_age_ms': both(self.observation_age), 'dropped': dict(self.dropped)}
