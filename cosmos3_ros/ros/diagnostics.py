# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Figures and states of a node as diagnostic_msgs, by the conventions of REP-107.

A node publishes one DiagnosticArray a second. It reports; it never stops a robot.
"""

from collections import deque
from collections.abc import Iterable
from enum import IntEnum

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
import numpy as np


class Level(IntEnum):
    """What a node says of a part of itself. STALE is left to those who watch the node."""

    OK = 0
    WARN = 1
    ERROR = 2


class Percentiles:
    """Median and 99th percentile of the newest `size` values; NaN before the first."""

    def __init__(self, size: int = 300):
        self._values: deque[float] = deque(maxlen=size)

    def add(self, value: float) -> None:
        """Take one value in; the oldest falls out of a full window."""
        self._values.append(value)

    @property
    def p50(self) -> float:
        """Median."""
        return self._percentile(50)

    @property
    def p99(self) -> float:
        """99th percentile, interpolated linearly."""
        return self._percentile(99)

    def _percentile(self, percent: float) -> float:
        values = tuple(self._values)
        return float(np.percentile(values, percent)) if values else float('nan')


class Status:
    """State of one part of a node, gathered from several checks: the worst level counts.

    `node` is the fully qualified name, so that two namespaces stay apart.
    """

    def __init__(self, node: str, part: str, hardware_id: str = ''):
        self._name = f'{node.lstrip("/")}: {part}'
        self._hardware_id = hardware_id
        self._reports: list[tuple[Level, str]] = []
        self._values: dict[str, str] = {}

    @property
    def level(self) -> Level:
        """Worst level reported so far; OK before the first report."""
        return max((level for level, _ in self._reports), default=Level.OK)

    def report(self, level: Level, message: str) -> None:
        """Add the outcome of one check."""
        self._reports.append((level, message))

    def value(self, key: str, value: object) -> None:
        """Set a figure, shown as text; floats get six digits."""
        is_float = isinstance(value, (float, np.floating))
        self._values[key] = f'{value:.6g}' if is_float else str(value)

    def to_message(self) -> DiagnosticStatus:
        """Build the message: troubles only, worst first, or what was said while all is well."""
        worst = self.level
        said = [(level, text) for level, text in self._reports
                if text and (level > Level.OK or worst == Level.OK)]
        said.sort(key=lambda report: -report[0])
        return DiagnosticStatus(
            name=self._name, hardware_id=self._hardware_id, level=bytes([worst]),
            message='; '.join(text for _, text in said) or worst.name,
            values=[KeyValue(key=key, value=value) for key, value in self._values.items()])


def diagnostic_array(stamp, statuses: Iterable[Status]) -> DiagnosticArray:
    """Build the message for /diagnostics; stamp is a builtin_interfaces/Time."""
    message = DiagnosticArray(status=[status.to_message() for status in statuses])
    message.header.stamp = stamp
    return message
