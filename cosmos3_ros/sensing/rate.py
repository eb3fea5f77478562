# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""How often something happens."""
from __future__ import annotations

from collections import deque


class Rate:
    """Frequency of an event over the newest `window` seconds, fed with times of any one clock."""

    def __init__(self, window: float = 5.0):
        self._window = window
        self._times: deque[float] = deque()

    def tick(self, now: float) -> None:
        """Count one event at `now`, in s; a clock that was set back starts the count anew."""
        if self._times and now < self._times[-1]:
            self._times = deque()
        self._times.append(now)
        while self._times[0] < now - self._window:
            self._times.popleft()

    def hertz(self, now: float) -> float:
        """Events a second as seen at `now`; 0 with fewer than two in the window.

        Gaps are counted, not events. A silence counts by what it has beyond the mean gap, so that
        the rate sinks once events stop and does not depend on when it is asked for.
        """
        times = [time for time in tuple(self._times) if time >= now - self._window]
        gaps = len(times) - 1
        if gaps < 1:
            return 0.0
        span = times[-1] - times[0]
        span += max(0.0, now - times[-1] - span / gaps)
        return gaps / span if span > 0 else 0.0
