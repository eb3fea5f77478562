# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters with description and range, and those that all nodes share."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node

from cosmos3_ros.droid.observation import CAMERAS


@dataclass(frozen=True)
class Parameter:
    """A parameter: default, description, and a range or choices. `fixed`: needs a restart."""

    default: Any
    description: str
    limits: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()
    fixed: bool = False

    def descriptor(self) -> ParameterDescriptor:
        """Return what `ros2 param describe` shows."""
        result = ParameterDescriptor(description=self.description, read_only=self.fixed)
        if self.choices:
            result.additional_constraints = f'one of {", ".join(self.choices)}'
        if self.limits and isinstance(self.default, int):
            result.integer_range = [
                IntegerRange(from_value=self.limits[0], to_value=self.limits[1])]
        elif self.limits:
            result.floating_point_range = [
                FloatingPointRange(from_value=self.limits[0], to_value=self.limits[1])]
        return result


def camera_parameters(name: str) -> dict[str, Parameter]:
    """Topic and transport of a camera."""
    return {
        f'cameras.{name}.topic': Parameter(
            f'{name}/image_raw', f'Topic of the {name} camera, without /compressed.', fixed=True),
        f'cameras.{name}.transport': Parameter(
            'raw', 'Image (raw) or CompressedImage (compressed, topic + /compressed).',
            choices=('raw', 'compressed'), fixed=True)}


COMMON = {
    'checkpoint': Parameter(
        '', 'Folder, hub id with an optional @revision, or random:tiny.', fixed=True),
    'precision': Parameter(
        'auto', 'Compute type; auto: bf16 on CUDA, fp32 on a CPU. fp8, on CUDA: products of the '
        'generation tower, the rest in bf16.', choices=('auto', 'bf16', 'fp32', 'fp8'),
        fixed=True),
    **{name: parameter for camera in CAMERAS
       for name, parameter in camera_parameters(camera).items()},
}


def declare(node: Node, parameters: Mapping[str, Parameter]) -> None:
    """Declare parameters; raises rclpy's ParameterException for a wrong type or range."""
    for name, parameter in parameters.items():
        node.declare_parameter(name, parameter.default, parameter.descriptor())
