# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds to messages."""
from __future__ import annotations

from builtin_interfaces.msg import Duration, Time


def to_time(nanoseconds: int) -> Time:
    """Return a Time message."""
    return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def to_duration(nanoseconds: int) -> Duration:
    """Return a Duration message."""
    return Duration(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
