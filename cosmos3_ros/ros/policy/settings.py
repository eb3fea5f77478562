# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of the policy node, checked as a whole."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node

from cosmos3_ros.control.gate import FRANKA, Gate
from cosmos3_ros.control.gate import Limits as JointLimits
from cosmos3_ros.control.gripper import GripperRange
from cosmos3_ros.control.trajectory import TrajectorySplicer
from cosmos3_ros.droid.observation import ARM_JOINTS
from cosmos3_ros.ros.parameters import COMMON, Parameter
from cosmos3_ros.sensing.streams import Limits as StreamLimits

POLICY = {
    **COMMON,
    'policy_checkpoint': Parameter(
        '', 'Checkpoint of the policy; empty: `checkpoint` is used.', fixed=True),
    'camera_reliability': Parameter(
        'best_effort', 'QoS reliability asked of the cameras; best_effort matches any publisher.',
        choices=('best_effort', 'reliable'), fixed=True),
    'joint_states_topic': Parameter('joint_states', 'Topic of the joint states.', fixed=True),
    'arm_joints': Parameter(
        list(FRANKA.names), 'Names of the seven arm joints, base to wrist.', fixed=True),
    'gripper_joint': Parameter('finger_joint', 'Name of the gripper joint.', fixed=True),
    'gripper_open': Parameter(
        0.0, 'Position of the gripper joint when open (its own units, rad or m).', fixed=True),
    'gripper_closed': Parameter(
        0.8, 'Position of the gripper joint when closed (its own units).', fixed=True),
    'max_camera_age': Parameter(
        0.25, 'A picture older than this is not used (s).', (0.01, 10.0)),
    'max_joint_age': Parameter(
        0.1, 'A joint state older than this, or as far from the wrist picture, is not used (s).',
        (0.005, 10.0)),
    'max_skew': Parameter(
        0.05, 'Pictures further apart than this are not used together (s).', (0.0, 10.0)),
    'chunks_in_flight': Parameter(2, 'Requests in the engine at a time.', (1, 4)),
    'max_reply_age': Parameter(
        0.5, 'A chunk that comes later than this after its observation is dropped (s).',
        (0.02, 60.0)),
    'max_chunk_age': Parameter(
        1.8, 'Rows due later than this after their observation are not executed (s).',
        (0.05, 60.0)),
    'give_up_age': Parameter(
        2.4, 'Without a newer chunk for this long the node disarms (s).', (0.1, 120.0)),
    'allow_motion': Parameter(
        False, 'First key to move: the arm service works only while this is true.'),
    'on_excess': Parameter(
        'refuse', 'A chunk with too large jumps or beyond joint limits: refuse it or limit it.',
        choices=('refuse', 'limit')),
    'step_jump': Parameter(0.20, 'Largest change from row to row (rad).', (0.001, 1.0)),
    'first_jump': Parameter(
        0.25, 'Largest distance of the first rows from the measured joints (rad).', (0.001, 3.2)),
    'on_new_instruction': Parameter(
        'flush', 'Requests in flight when the instruction changes: flush them or let them finish.',
        choices=('flush', 'finish')),
    'seed': Parameter(
        -1, 'Seed of the first chunk after activation, later ones count up from it; -1: drawn.',
        (-1, 2**32 - 1)),
}


@dataclass(frozen=True)
class Settings:
    """Checked values of the parameters in POLICY; raises ValueError if they do not fit."""

    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, parameter in POLICY.items():
            if parameter.choices and self[name] not in parameter.choices:
                raise ValueError(f'parameter {name}: found {self[name]!r}, wanted one of '
                                 f'{", ".join(parameter.choices)}')
        ages = ('max_reply_age', 'max_chunk_age', 'give_up_age')
        for shorter, longer in zip(ages, ages[1:]):
            if self[shorter] > self[longer]:
                raise ValueError(f'parameter {shorter}: found {self[shorter]} s, wanted at most '
                                 f'{longer}, which is {self[longer]} s')
        joints = self['arm_joints']
        if len(joints) != ARM_JOINTS or len({*joints, self['gripper_joint']}) != ARM_JOINTS + 1:
            raise ValueError(f'parameter arm_joints: found {list(joints)}, wanted {ARM_JOINTS} '
                             'different names, without that of the gripper joint')
        self.gripper_range()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def policy_checkpoint(self) -> str:
        """Reference of the policy's checkpoint. Raises ValueError if none is given."""
        reference = self['policy_checkpoint'] or self['checkpoint']
        if not reference:
            raise ValueError('parameters policy_checkpoint and checkpoint are empty: wanted a '
                             'folder, a hub id such as nvidia/Cosmos3-Edge, or random:tiny')
        return reference

    @property
    def column_names(self) -> list[str]:
        """Names of the columns of a chunk: arm joints, then the gripper joint."""
        return [*self['arm_joints'], self['gripper_joint']]

    def stream_limits(self) -> StreamLimits:
        return StreamLimits(*(round(self[name] * 1e9)
                              for name in ('max_camera_age', 'max_joint_age', 'max_skew')))

    def joint_limits(self) -> JointLimits:
        return replace(FRANKA, names=tuple(self['arm_joints']))

    def gate(self) -> Gate:
        return Gate(self.joint_limits(), self['step_jump'], self['first_jump'], self['on_excess'])

    def splicer(self) -> TrajectorySplicer:
        return TrajectorySplicer(
            self.joint_limits(), max_reply_age=self['max_reply_age'],
            max_chunk_age=self['max_chunk_age'], give_up_age=self['give_up_age'])

    def gripper_range(self) -> GripperRange:
        return GripperRange(self['gripper_open'], self['gripper_closed'])


def read(node: Node) -> Settings:
    """Settings as declared on a node. Raises ValueError."""
    return Settings({name: node.get_parameter(name).value for name in POLICY})


def watch(node: Node, changed: Callable[[Settings], None]) -> None:
    """Refuse changes that do not fit together, and report those that do."""
    def check(proposed: list) -> SetParametersResult:
        values = {name: node.get_parameter(name).value for name in POLICY}
        values |= {parameter.name: parameter.value for parameter in proposed
                   if parameter.name in POLICY}
        try:
            Settings(values)
        except ValueError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def accept(accepted: list) -> None:
        if any(parameter.name in POLICY for parameter in accepted):
            changed(read(node))

    node.add_on_set_parameters_callback(check)
    node.add_post_set_parameters_callback(accept)
