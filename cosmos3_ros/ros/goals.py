# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""How an action goal ends."""
from __future__ import annotations

from typing import Any

from rclpy.action.server import ServerGoalHandle


def finish(handle: ServerGoalHandle, result: Any) -> Any:
    """Set a goal's final state by its result's `outcome`; returns the result."""
    if result.outcome == result.SUCCEEDED:
        handle.succeed()
    elif result.outcome == result.CANCELLED:
        handle.canceled()
    else:
        handle.abort()
    return result
