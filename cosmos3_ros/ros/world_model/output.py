# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Imagined frames as messages."""
from __future__ import annotations

from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from cosmos3_ros.msg import RolloutFrame
from cosmos3_ros.ros.images import compress, from_rgb
from cosmos3_ros.ros.messages import to_time
from cosmos3_ros.ros.world_model.goals import Opened
from cosmos3_ros.tasks.rollout import Frame

DEPTH = 16      # frames of two latents' bursts, for readers that keep up on average


class Output:
    """Publishes a frame on ~/image, ~/image/compressed and ~/frame, all with one header."""

    def __init__(self, node: Node):
        qos = QoSProfile(depth=DEPTH)       # reliable: a reader in time gets every frame
        self.frames = 0
        self._raw = node.create_publisher(Image, '~/image', qos)
        self._compressed = node.create_publisher(CompressedImage, '~/image/compressed', qos)
        self._frame = node.create_publisher(RolloutFrame, '~/frame', QoSProfile(depth=4 * DEPTH))

    def publish(self, frame: Frame, opened: Opened, name: str) -> None:
        """Send a frame of the session `name`; its stamp is the time that it predicts.

        Sessions may start from one picture: the name in `frame_id` tells their frames apart.
        """
        session, start = opened.session, opened.start
        stamp = to_time(start.stamp + round(frame.index / session.fps * 1e9))
        frame_id = f'imagined/{name}/{start.frame_id}'.rstrip('/')
        header = Header(stamp=stamp, frame_id=frame_id)
        if self._raw.get_subscription_count():
            self._raw.publish(from_rgb(frame.image, header))
        if self._compressed.get_subscription_count():
            self._compressed.publish(compress(frame.image, header))
        inputs = {start.name: start.stamp} if start.name else {}
        if opened.chunk_stamp is not None:
            inputs['action_chunk'] = opened.chunk_stamp
        self._frame.publish(RolloutFrame(
            header=header, index=frame.index, window=frame.window, latent=frame.latent,
            session=name, seed=session.seed, prompt=opened.prompt(frame.window),
            input_names=list(inputs),
            input_stamps=[to_time(stamp) for stamp in inputs.values()]))
        self.frames += 1
