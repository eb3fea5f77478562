# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Start the process of a robot: one engine and its nodes."""

import os
from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

# Beside this folder both in the source tree and in share/cosmos3_ros.
CONFIG = Path(__file__).resolve().parent.parent / 'config'
PROFILE = 'FASTRTPS_DEFAULT_PROFILES_FILE'

# name: default, description
ARGUMENTS = {
    'params_file': (str(CONFIG / 'cosmos3.yaml'), 'Parameters of all nodes of the process.'),
    'namespace': ('', 'Namespace of the nodes and their topics.'),
    'use_sim_time': ('false', 'Take the time from /clock: true or false.'),
    'log_level': ('info', 'debug, info, warn, error or fatal.'),
    'checkpoint': ('', 'Folder, hub id or random:tiny; empty: as in params_file.'),
    'policy_checkpoint': ('', 'Checkpoint of the policy; empty: as in params_file.'),
    'autostart': ('', 'Configure and activate all nodes: true or false; empty: as in '
                  'params_file.'),
}


def generate_launch_description():
    """Return the arguments and the process."""
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=description)
          for name, (default, description) in ARGUMENTS.items()),
        OpaqueFunction(function=_process)])


def _process(context):
    given = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    types = {'use_sim_time': bool, 'checkpoint': str, 'policy_checkpoint': str, 'autostart': bool}
    overrides = {name: ParameterValue(given[name], value_type=value_type)
                 for name, value_type in types.items() if given[name]}
    # Large pictures do not arrive with Fast DDS's defaults; what the user has set stays.
    profile = os.environ.get(PROFILE, str(CONFIG / 'fastdds.xml'))
    return [Node(
        package='cosmos3_ros', executable='cosmos3_node', namespace=given['namespace'],
        parameters=[given['params_file'], overrides], output='screen',
        arguments=['--ros-args', '--log-level', given['log_level']],
        additional_env={PROFILE: profile})]
