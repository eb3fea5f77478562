# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Between a robot's joints and the network's action rows: radians both, the gripper reversed."""
from __future__ import annotations

import numpy as np

from .observation import ARM_JOINTS

WIDTH = ARM_JOINTS + 1


def state_row(joints: np.ndarray, gripper: float) -> np.ndarray:
    """Row 0, the present state: float32 [8], seven angles in rad, then 1 - gripper.

    `gripper`: 0 open to 1 closed; the network counts the other way.
    """
    row = np.empty(WIDTH, np.float32)
    row[:ARM_JOINTS] = joints
    row[ARM_JOINTS] = np.float32(1) - np.float32(gripper)
    return row


def joint_targets(rows: np.ndarray) -> np.ndarray:
    """Robot targets from the network's rows: float32 [h, 8] -> float64 [h, 8].

    Absolute angles in rad, then the gripper, 0 open to 1 closed, as predicted: it may lie a
    little outside. Raises ValueError for another width.
    """
    if rows.ndim != 2 or rows.shape[1] != WIDTH:
        raise ValueError(f'action rows: found shape {list(rows.shape)}, wanted [h, {WIDTH}]: '
                         'the checkpoint or its recipe is not a DROID policy\'s')
    targets = np.array(rows, dtype=np.float32)
    targets[:, ARM_JOINTS] = np.float32(1) - targets[:, ARM_JOINTS]
    return targets.astype(np.float64)
