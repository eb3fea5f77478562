# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Frame 0 of a video: from a camera, from the goal, or none."""
from __future__ import annotations

from functools import partial

import numpy as np
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image

from cosmos3_ros.droid.compose import compose
from cosmos3_ros.droid.observation import CAMERAS
from cosmos3_ros.ros.images import to_rgb
from cosmos3_ros.ros.streams import WRIST, Received, Stream
from cosmos3_ros.ros.world_model.goals import Start

KINDS = {'raw': Image, 'compressed': CompressedImage}


class Pictures:
    """The newest picture of each camera."""

    def __init__(self, node: Node):
        self._node = node
        self._streams: dict[str, Stream] = {}
        for name in CAMERAS:
            topic, transport = (node.get_parameter(f'cameras.{name}.{part}').value
                                for part in ('topic', 'transport'))
            topic += '/compressed' if transport == 'compressed' else ''
            self._streams[name] = stream = Stream(name, node.resolve_topic_name(topic))
            node.create_subscription(KINDS[transport], topic, partial(self._store, stream),
                                     qos_profile_sensor_data)

    def start(self, goal, now: int) -> Start:
        """What a goal starts from, as of `now` (ns).

        A goal with actions and neither camera nor picture starts from the composed view of all
        three cameras, as the policy sees it. Raises ValueError or ImageError.
        """
        if goal.camera:
            picture, received = self._newest(goal.camera, now)
            frame = received.message.header.frame_id
            return Start(picture, f'imagined/{frame}', goal.camera, received.stamp)
        if goal.picture.data:
            return Start(to_rgb(goal.picture), 'imagined', 'picture', now)
        if goal.actions or goal.follow_policy:
            newest = {name: self._newest(name, now) for name in CAMERAS}
            pictures = {name: picture for name, (picture, _) in newest.items()}
            return Start(compose(pictures), 'imagined', 'composed', newest[WRIST][1].stamp)
        return Start(None, 'imagined', '', now)

    def _store(self, stream: Stream, message) -> None:
        stream.put(message, self._node.get_clock().now().nanoseconds)

    def _newest(self, name: str, now: int) -> tuple[np.ndarray, Received]:
        if name not in self._streams:
            raise ValueError(f'camera {name!r} is unknown: wanted one of {", ".join(CAMERAS)}')
        stream = self._streams[name]
        limit = self._node.get_parameter('max_camera_age').value
        age = stream.age(now)
        if age is None or age * 1e-9 > limit:
            found = 'no picture yet' if age is None else f'the newest is {age * 1e-9:.2f} s old'
            raise ValueError(f'camera {name}: {found} on {stream.topic}, wanted one of the last '
                             f'{limit:.2f} s: check that it publishes')
        received = stream.latest
        return to_rgb(received.message), received
