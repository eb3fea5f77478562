# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a bag's topics and joints are called, and the limits of the live node."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from cosmos3_ros.control.gate import FRANKA
from cosmos3_ros.control.gripper import GripperRange
from cosmos3_ros.droid.observation import ARM_JOINTS, CAMERAS
from cosmos3_ros.sensing.streams import JointStream, Limits, Streams

from .bag import Bag

IMAGE, COMPRESSED = 'sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage'
JOINT_STATE, STRING = 'sensor_msgs/msg/JointState', 'std_msgs/msg/String'


@dataclass(frozen=True)
class Setup:
    """Values of the policy node's parameters of the same names, and topics of a bag.

    A camera's topic may be given with or without `/compressed`. `reference_topic`: JointState
    whose positions are the recorded motion, for example commands; empty takes `joint_states_topic`.
    Ages and skew in s, gripper positions in its joint's units. Raises ValueError.
    """

    cameras: Mapping[str, str] = field(
        default_factory=lambda: {name: f'{name}/image_raw' for name in CAMERAS})
    joint_states_topic: str = 'joint_states'
    reference_topic: str = ''
    instruction_topic: str = 'policy/instruction'
    arm_joints: tuple[str, ...] = FRANKA.names
    gripper_joint: str = 'finger_joint'
    gripper_open: float = 0.0
    gripper_closed: float = 0.8
    max_camera_age: float = 0.25
    max_joint_age: float = 0.1
    max_skew: float = 0.05
    max_reply_age: float = 0.5
    chunks_in_flight: int = 2

    def __post_init__(self) -> None:
        if set(self.cameras) != set(CAMERAS):
            raise ValueError(f'cameras: found {", ".join(self.cameras)}, wanted the topics of '
                             f'{", ".join(CAMERAS)}')
        if len({*self.arm_joints, self.gripper_joint}) != ARM_JOINTS + 1:
            raise ValueError(f'arm_joints: found {list(self.arm_joints)}, wanted {ARM_JOINTS} '
                             'different names, without that of the gripper joint')
        self.gripper_range()

    @property
    def joint_names(self) -> list[str]:
        """Columns of a chunk: arm joints, then the gripper."""
        return [*self.arm_joints, self.gripper_joint]

    def gripper_range(self) -> GripperRange:
        return GripperRange(self.gripper_open, self.gripper_closed)

    def streams(self, bag: Bag, clock: Callable[[], float]) -> Streams:
        """Empty buffers for the topics that the bag has. Raises BagError for one that it lacks."""
        cameras = {name: self._camera(bag, name) for name in CAMERAS}
        joints = JointStream(bag.find(_absolute(self.joint_states_topic), [JOINT_STATE], 'joints'),
                             self.arm_joints, self.gripper_joint, clock)
        limits = Limits(*(round(value * 1e9) for value in (
            self.max_camera_age, self.max_joint_age, self.max_skew)))
        return Streams(cameras, joints, limits)

    def reference(self, bag: Bag) -> str:
        """Topic of the recorded motion. Raises BagError."""
        topic = _absolute(self.reference_topic or self.joint_states_topic)
        return bag.find(topic, [JOINT_STATE], 'recorded motion')

    def instructions(self, bag: Bag) -> str:
        """Topic of the instructions, '' if the bag has none."""
        topic = _absolute(self.instruction_topic)
        return topic if bag.topics.get(topic) == STRING else ''

    def _camera(self, bag: Bag, name: str) -> str:
        """The topic as named, else its compressed or raw sibling."""
        topic = _absolute(self.cameras[name])
        sibling = (topic.removesuffix('/compressed') if topic.endswith('/compressed')
                   else topic + '/compressed')
        if topic not in bag.topics and sibling in bag.topics:
            topic = sibling
        return bag.find(topic, [IMAGE, COMPRESSED], f'camera {name}')


def read(path: Path | None) -> Setup:
    """Setup from a YAML map, or from a parameter file of the nodes; None: the defaults.

    In a map, `cameras` holds topics by name; a parameter file may hold more than is used.
    Raises ValueError.
    """
    if path is None:
        return Setup()
    try:
        values = yaml.safe_load(path.read_text(encoding='utf-8'))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f'{path}: cannot be read as YAML: {error}') from error
    values, whole = _parameters(values)
    known = {one.name for one in fields(Setup)}
    if not isinstance(values, dict) or (unknown := sorted(set(values) - known)) and not whole:
        found = ', '.join(unknown) if isinstance(values, dict) else type(values).__name__
        raise ValueError(f'{path}: found {found}, wanted a map with any of '
                         f'{", ".join(sorted(known))}')
    chosen = {name: value for name, value in values.items() if name in known}
    try:
        if 'cameras' in chosen:
            chosen['cameras'] = Setup().cameras | {
                name: _topic(value) for name, value in chosen['cameras'].items()}
        if 'arm_joints' in chosen:
            chosen['arm_joints'] = tuple(chosen['arm_joints'])
        return Setup(**chosen)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise ValueError(f'{path}: {error}') from error


def _parameters(values: Any) -> tuple[Any, bool]:
    """The parameters of a node's file and True, or the values as they are and False."""
    if isinstance(values, dict):
        for value in values.values():
            if isinstance(value, dict) and 'ros__parameters' in value:
                return value['ros__parameters'], True
    return values, False


def _topic(value: Any) -> str:
    return value['topic'] if isinstance(value, dict) else value


def _absolute(topic: str) -> str:
    return topic if topic.startswith('/') else f'/{topic}'


