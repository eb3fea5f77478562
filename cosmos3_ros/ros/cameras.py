# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The newest picture of each camera, and those of the last seconds."""
from __future__ import annotations

from collections import deque
from functools import partial
import threading
from typing import Any

from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image

from cosmos3_ros.droid.observation import CAMERAS
from cosmos3_ros.sensing.streams import FUTURE, Received, Stream

KINDS = {'raw': Image, 'compressed': CompressedImage}
VIDEO_FPS = 2.0                         # what the reasoner's processor samples videos at
PERIOD = round(1e9 / VIDEO_FPS)         # ns


class Cameras:
    """Messages of the cameras in a node's parameters `cameras.<name>`, as they came.

    `listener`: the node whose executor receives them. `memory`: s of video that is remembered,
    at 2 frames a second, so that raw 640x480 pictures of ten seconds take 18 MB a camera.
    Raises ValueError for an unknown transport.
    """

    def __init__(self, node: Node, listener: Node, memory: float = 0.0):
        self.memory = memory
        self._node = node
        self._lock = threading.Lock()
        self._streams: dict[str, Stream] = {}
        self._videos: dict[str, deque[Received]] = {}
        for name in CAMERAS:
            topic, transport = (node.get_parameter(f'cameras.{name}.{part}').value
                                for part in ('topic', 'transport'))
            if transport not in KINDS:
                raise ValueError(f'parameter cameras.{name}.transport: found {transport!r}, '
                                 f'wanted one of {", ".join(KINDS)}')
            topic = node.resolve_topic_name(
                topic + ('/compressed' if transport == 'compressed' else ''))
            self._streams[name] = stream = Stream(name, topic)
            self._videos[name] = deque(maxlen=round(memory * VIDEO_FPS))
            listener.create_subscription(KINDS[transport], topic, partial(self._store, stream),
                                         qos_profile_sensor_data)

    def newest(self, name: str, now: int) -> Received:
        """The newest picture as of `now` (ns).

        Raises ValueError for an unknown camera, one without a picture, or a picture that is old
        or lies in the future.
        """
        if name not in self._streams:
            raise ValueError(f'camera {name!r} is unknown: wanted one of {", ".join(CAMERAS)}')
        stream = self._streams[name]
        limit = self._node.get_parameter('max_camera_age').value
        with self._lock:
            age, received = stream.age(now), stream.latest
        if age is None or age * 1e-9 > limit:
            found = 'no picture yet' if age is None else f'the newest is {age * 1e-9:.2f} s old'
            raise ValueError(f'camera {name}: {found} on {stream.topic}, wanted one of the last '
                             f'{limit:.2f} s: check that it publishes')
        if age < -FUTURE:
            raise ValueError(f'camera {name}: the newest picture on {stream.topic} lies '
                             f'{-age * 1e-9:.2f} s in the future: put it and this node on one '
                             'clock')
        return received

    def video(self, name: str, seconds: float, now: int) -> list[Received]:
        """Pictures of the last seconds, two a second or as many as came; at least the newest.

        Raises ValueError as `newest` does.
        """
        newest = self.newest(name, now)
        with self._lock:
            frames = [one for one in self._videos[name]
                      if now - seconds * 1e9 <= one.stamp <= newest.stamp]
        return frames or [newest]

    def _store(self, stream: Stream, message: Any) -> None:
        now = self._node.get_clock().now().nanoseconds
        with self._lock:
            stream.put(message, now)
            self._remember(self._videos[stream.name], stream.latest)

    def _remember(self, video: deque[Received], frame: Received) -> None:
        """Keep the first picture of each half second; time that runs backwards starts anew."""
        if video and frame.stamp < video[-1].stamp:
            video.clear()
        if not video or frame.stamp // PERIOD > video[-1].stamp // PERIOD:
            video.append(frame)
