# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Frame 0 of a video: from a camera, from the goal, or none."""
from __future__ import annotations

import numpy as np
from rclpy.node import Node

from cosmos3_ros.droid.compose import compose
from cosmos3_ros.droid.observation import CAMERAS
from cosmos3_ros.ros.cameras import Cameras
from cosmos3_ros.ros.world_model.goals import Start
from cosmos3_ros.sensing.images import to_rgb
from cosmos3_ros.sensing.streams import WRIST, Received


class Pictures:
    """What videos start from."""

    def __init__(self, node: Node, listener: Node):
        self._cameras = Cameras(node, listener)

    def start(self, goal, now: int) -> Start:
        """What a goal starts from, as of `now` (ns).

        A goal with actions and neither camera nor picture starts from the composed view of all
        three cameras, as the policy sees it. Raises ValueError or ImageError.
        """
        if goal.camera:
            picture, received = self._newest(goal.camera, now)
            return Start(picture, received.message.header.frame_id, goal.camera, received.stamp)
        if goal.picture.data:
            return Start(to_rgb(goal.picture), '', 'picture', now)
        if goal.actions or goal.follow_policy:
            newest = {name: self._newest(name, now) for name in CAMERAS}
            pictures = {name: picture for name, (picture, _) in newest.items()}
            return Start(compose(pictures), '', 'composed', newest[WRIST][1].stamp)
        return Start(None, '', '', now)

    def _newest(self, name: str, now: int) -> tuple[np.ndarray, Received]:
        received = self._cameras.newest(name, now)
        return to_rgb(received.message), received
