# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs of the policy node: subscriptions that only store what came."""
from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy, qos_policy_name_from_kind, qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image, JointState

from cosmos3_ros.droid.observation import CAMERAS
from cosmos3_ros.ros.policy.settings import Settings
from cosmos3_ros.sensing.streams import JointStream, Stream, Streams


def make_streams(node: Node, settings: Settings) -> Streams:
    """Empty streams for a node's topics, as they are called after remapping.

    Raises ValueError for what cannot be a topic name.
    """
    topics = {}
    for name in CAMERAS:
        suffix = '/compressed' if settings[f'cameras.{name}.transport'] == 'compressed' else ''
        topics[name] = _resolve(node, settings, f'cameras.{name}.topic', suffix)
    joints = JointStream(_resolve(node, settings, 'joint_states_topic'),
                         settings['arm_joints'], settings['gripper_joint'])
    return Streams(topics, joints, settings.stream_limits())


def _resolve(node: Node, settings: Settings, parameter: str, suffix: str = '') -> str:
    topic = settings[parameter] + suffix
    try:
        return node.resolve_topic_name(topic)
    except Exception as error:          # rclpy's kinds differ with what is wrong
        raise ValueError(f'parameter {parameter}: found {topic!r}, wanted a topic name: '
                         f'{error}') from error


def subscribe(node: Node, settings: Settings, streams: Streams,
              clock: Callable[[], int | None], arrived: Callable[[], None]) -> None:
    """Subscribe to all streams; `arrived` is called after a picture was stored.

    `clock` gives the node's time in ns, or None while there is none and messages are left.
    """
    def store(stream: Stream, message) -> None:
        if (now := clock()) is None:
            return
        streams.put(stream, message, now)
        if stream.unstamped and not stream.warned:
            stream.warned = True
            node.get_logger().warning(f'{stream.name}: zero stamps on {stream.topic}: the time of '
                                      'receipt is used, which includes the way here')
        if stream is not streams.joints:
            arrived()

    def incompatible(stream: Stream, event) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        stream.incompatible = (
            f'a publisher on {stream.topic} offers another {policy} than is asked for and is not '
            'heard: set camera_reliability to best_effort, or the driver to reliable')
        node.get_logger().error(f'{stream.name}: {stream.incompatible}')

    def listen(stream: Stream, message_type: type, qos) -> None:
        events = SubscriptionEventCallbacks(incompatible_qos=partial(incompatible, stream))
        node.create_subscription(message_type, stream.topic, partial(store, stream), qos,
                                 event_callbacks=events)

    camera_qos = copy(qos_profile_sensor_data)
    camera_qos.reliability = ReliabilityPolicy[settings['camera_reliability'].upper()]
    kinds = {'raw': Image, 'compressed': CompressedImage}
    for name, stream in streams.cameras.items():
        listen(stream, kinds[settings[f'cameras.{name}.transport']], camera_qos)
    listen(streams.joints, JointState, qos_profile_sensor_data)
