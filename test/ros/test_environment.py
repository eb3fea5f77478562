# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the processes of this package add to the environment."""

import os
from pathlib import Path
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from cosmos3_ros.ros import environment

PROFILE = 'FASTRTPS_DEFAULT_PROFILES_FILE'
MARKER = 'share/ament_index/resource_index/packages/cosmos3_ros'


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A prefix that holds the package, as Python's own."""
    monkeypatch.setattr(os, 'environ', {})
    monkeypatch.setattr(sys, 'prefix', str(tmp_path / 'prefix'))
    install(tmp_path / 'prefix')
    return tmp_path / 'prefix'


def install(prefix):
    (prefix / MARKER).parent.mkdir(parents=True)
    (prefix / MARKER).touch()


def test_python_prefix_is_used_when_ament_names_none(installed):
    environment.prepare_environment()
    assert os.environ['AMENT_PREFIX_PATH'] == str(installed)
    assert os.environ[PROFILE] == f'{installed}/share/cosmos3_ros/config/fastdds.xml'


def test_workspace_goes_before_python_prefix(installed, tmp_path, monkeypatch):
    install(tmp_path / 'workspace')
    monkeypatch.setenv('AMENT_PREFIX_PATH', f'/opt/ros/jazzy:{tmp_path}/workspace')
    environment.prepare_environment()
    assert os.environ['AMENT_PREFIX_PATH'] == f'/opt/ros/jazzy:{tmp_path}/workspace'
    assert environment.share_directory() == tmp_path / 'workspace/share/cosmos3_ros'


def test_foreign_ament_path_is_kept_and_extended(installed, monkeypatch):
    monkeypatch.setenv('AMENT_PREFIX_PATH', '/opt/ros/jazzy')
    environment.prepare_environment()
    assert os.environ['AMENT_PREFIX_PATH'] == f'/opt/ros/jazzy:{installed}'


def test_profile_of_the_user_is_kept(installed, monkeypatch):
    monkeypatch.setenv(PROFILE, '/etc/robot.xml')
    environment.prepare_environment()
    assert os.environ[PROFILE] == '/etc/robot.xml'


def test_missing_package_says_where_it_was_sought(tmp_path, monkeypatch):
    monkeypatch.setenv('AMENT_PREFIX_PATH', '/opt/ros/jazzy')
    monkeypatch.setattr(sys, 'prefix', str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f'/opt/ros/jazzy, {tmp_path}'):
        environment.prepare_environment()


def test_shipped_profile_replaces_the_transports():
    path = Path(__file__).parents[2] / 'config' / 'fastdds.xml'
    names = {'p': 'http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles'}
    root = ElementTree.parse(path).getroot()
    declared, used = ({node.text for node in root.findall(f'.//p:{parent}/p:transport_id', names)}
                      for parent in ('transport_descriptor', 'userTransports'))
    picture = 832 * 480 * 3
    assert used == declared and len(used) == 2
    assert int(root.findtext('.//p:segment_size', namespaces=names)) > 3 * 2 * picture
    assert root.findtext('.//p:useBuiltinTransports', namespaces=names) == 'false'


PROBE = """
import rclpy
from cosmos3_ros.ros.environment import prepare_environment
prepare_environment()
rclpy.init()
node = rclpy.create_node('probe')
sizes = [0]
for line in open('/proc/self/maps'):
    if '/fastrtps_' in line:
        first, last = (int(end, 16) for end in line.split()[0].split('-'))
        sizes.append(last - first)
print(max(sizes))
"""


def test_fast_dds_takes_the_shipped_segment_size():
    kept = {key: value for key, value in os.environ.items() if key != PROFILE}
    done = subprocess.run([sys.executable, '-c', PROBE], env=kept, capture_output=True, text=True,
                          timeout=60)
    assert done.stderr == ''
    assert int(done.stdout) >= 32 * 2**20
