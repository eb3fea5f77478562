# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a DROID policy sees at one moment, checked once."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

CAMERAS = ('wrist', 'exterior_left', 'exterior_right')
ARM_JOINTS = 7
GRIPPER_SLACK = 0.1  # sensors overshoot their end stops a little; other units overshoot by far


class ObservationError(ValueError):
    """An observation that the policy cannot be asked about."""


@dataclass(frozen=True)
class Observation:
    """One moment of a DROID robot.

    `instruction`: text; '' asks for the unconditional branch. `pictures`: camera name -> uint8
    [H, W, 3] RGB, one for each of CAMERAS. `joints`: float64 [7], rad, base to wrist.
    `gripper`: 0 open to 1 closed. Raises ObservationError.
    """

    instruction: str
    pictures: Mapping[str, np.ndarray]
    joints: np.ndarray
    gripper: float

    def __post_init__(self) -> None:
        check_pictures(self.pictures)
        object.__setattr__(self, 'joints', _checked_joints(self.joints))
        object.__setattr__(self, 'gripper', _checked_gripper(self.gripper))


def check_pictures(pictures: Mapping[str, np.ndarray]) -> None:
    """Raise ObservationError unless there is one uint8 [H, W, 3] picture of each camera."""
    missing = [name for name in CAMERAS if name not in pictures]
    unknown = [name for name in pictures if name not in CAMERAS]
    if missing or unknown:
        raise ObservationError(
            f'cameras: no picture of {_listed(missing)}, unknown {_listed(unknown)}; '
            f'expected {_listed(CAMERAS)}: check the camera topics')
    for name in CAMERAS:
        picture = np.asarray(pictures[name])
        if (picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3
                or not picture.size):
            raise ObservationError(
                f'camera {name}: found {picture.dtype} {list(picture.shape)}, '
                'wanted uint8 [H, W, 3] RGB: convert the picture first')


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return ', '.join(names) or 'none'


def _checked_joints(joints: np.ndarray) -> np.ndarray:
    values = np.array(joints, dtype=np.float64)
    if values.shape != (ARM_JOINTS,):
        raise ObservationError(f'joints: found shape {list(values.shape)}, wanted [{ARM_JOINTS}]: '
                               'give the arm joints alone, base to wrist')
    for index in np.flatnonzero(~np.isfinite(values)):
        raise ObservationError(f'joints[{index}]: found {values[index]}, wanted a finite angle '
                               'in rad: check the joint state source')
    return values


def _checked_gripper(gripper: float) -> float:
    value = float(gripper)
    if not -GRIPPER_SLACK <= value <= 1 + GRIPPER_SLACK:
        raise ObservationError(f'gripper: found {value}, wanted 0 (open) to 1 (closed): '
                               'map it from the joint\'s own units')
    return value
