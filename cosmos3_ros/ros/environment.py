# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Environment variables that ROS reads: where packages lie, how pictures travel."""

import os
from pathlib import Path
import sys

PACKAGE = 'cosmos3_ros'
PROFILE = 'FASTRTPS_DEFAULT_PROFILES_FILE'  # the name that Fast DDS 2 (Jazzy) reads


def prepare_environment() -> None:
    """Let ROS find this package, and send pictures through the shipped Fast DDS profile.

    Call before rclpy.init() and before starting a child process. What the user has set stays.
    Raises FileNotFoundError when the package is not installed.
    """
    prefix = find_prefix()
    prefixes = _ament_prefixes()
    if prefix not in prefixes:
        os.environ['AMENT_PREFIX_PATH'] = os.pathsep.join(map(str, [*prefixes, prefix]))
    os.environ.setdefault(PROFILE, str(share_directory() / 'config' / 'fastdds.xml'))


def share_directory() -> Path:
    """Folder of the installed launch/ and config/. Raises FileNotFoundError."""
    return find_prefix() / 'share' / PACKAGE


def find_prefix() -> Path:
    """Install prefix of this package: first on AMENT_PREFIX_PATH, else Python's own (pip).

    Raises FileNotFoundError.
    """
    candidates = [*_ament_prefixes(), Path(sys.prefix)]
    for prefix in candidates:
        if (prefix / 'share/ament_index/resource_index/packages' / PACKAGE).is_file():
            return prefix
    raise FileNotFoundError(
        f'{PACKAGE} is not installed under {", ".join(map(str, candidates))}: '
        'run pip install, or source the workspace that colcon built')


def _ament_prefixes() -> list[Path]:
    path = os.environ.get('AMENT_PREFIX_PATH', '')
    return [Path(word) for word in path.split(os.pathsep) if word]
