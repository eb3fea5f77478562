# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Messages that the policy node sends."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from cosmos3_ros.droid.recipe import STEP
from cosmos3_ros.msg import ActionChunk
from cosmos3_ros.ros.messages import to_duration, to_time
from cosmos3_ros.ros.policy.pipeline import Request


def action_chunk(request: Request, targets: np.ndarray, names: Sequence[str], checkpoint: str,
                 now: int) -> ActionChunk:
    """Return targets [h, n] for a request's observation; `now`: ns, the time of publication."""
    snapshot = request.snapshot
    stamps = snapshot.stamps
    chunk = ActionChunk(
        step=to_duration(round(STEP * 1e9)), horizon=len(targets), names=list(names),
        positions=targets.ravel().tolist(), control_mode='joint_position',
        instruction=request.instruction, sequence=request.sequence, seed=request.seed,
        checkpoint=checkpoint, input_names=list(stamps),
        input_stamps=[to_time(stamp) for stamp in stamps.values()],
        latency=to_duration(now - snapshot.stamp))
    chunk.header.stamp = to_time(snapshot.stamp)
    return chunk


def joint_trajectory(stamp: int, names: Sequence[str], times: np.ndarray, positions: np.ndarray,
                     velocities: np.ndarray | None = None) -> JointTrajectory:
    """Return points [k, n] at `times` [k], s after `stamp` (ns; 0 is "now" to a controller)."""
    message = JointTrajectory(joint_names=list(names))
    message.header.stamp = to_time(stamp)
    for index, time in enumerate(times):
        point = JointTrajectoryPoint(positions=positions[index].tolist(),
                                     time_from_start=to_duration(round(time * 1e9)))
        if velocities is not None:
            point.velocities = velocities[index].tolist()
        message.points.append(point)
    return message
