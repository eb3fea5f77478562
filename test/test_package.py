# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The package as installed: interfaces, nodes, data, and which layer imports which."""

import ast
import importlib.metadata
import os
from pathlib import Path
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import cosmos3_ros
from cosmos3_ros import action, msg, srv
from cosmos3_ros.ros.environment import find_prefix, share_directory

TREE = Path(__file__).parents[1]
SOURCES = Path(cosmos3_ros.__file__).parent
LAYERS = ['model', 'tasks', 'engine', 'droid', 'control', 'sensing', 'rig', 'replay', 'bench',
          'ros', 'cli']
INTERFACES = {'msg', 'srv', 'action'}
ROS_MODULES = {'rclpy', 'rcl_interfaces', 'launch', 'launch_ros', 'ament_index_python', 'std_srvs'}
FIELDS = [
    (msg.ActionChunk, 'header step horizon names positions control_mode instruction sequence seed '
                      'checkpoint input_names input_stamps latency'),
    (msg.RolloutFrame, 'header index window latent session seed prompt input_names input_stamps'),
    (msg.Question, 'text cameras pictures max_tokens temperature top_p top_k seed stop thinking'),
    (msg.Answer, 'text thinking finish_reason regions picture_names picture_stamps'),
    (msg.Region, 'kind label picture normalized pixels'),
    (srv.Ask.Request, 'question'),
    (srv.Ask.Response, 'answer'),
    (srv.Steer.Request, 'session prompt'),
    (srv.CloseSession.Request, 'session'),
    (action.RunPolicy.Goal, 'instruction timeout max_chunks seed'),
    (action.RunPolicy.Result, 'outcome message chunks dropped'),
    (action.RunPolicy.Feedback, 'sequence chunks dropped in_flight latency'),
    (action.Imagine.Goal, 'prompt mode session camera frames seed actions'),
    (action.Imagine.Feedback, 'session frames frames_per_second'),
    (action.Reason.Goal, 'question'),
    (action.Reason.Feedback, 'delta thinking completion_tokens'),
]


@pytest.mark.parametrize('interface, names', FIELDS)
def test_interface_has_the_fields_of_the_design(interface, names):
    assert set(names.split()) <= set(interface.get_fields_and_field_types())


def test_chunk_survives_the_wire():
    from rclpy.serialization import deserialize_message, serialize_message
    sent = msg.ActionChunk(names=['panda_joint1'], positions=[0.25, -1.5], horizon=2, seed=-3)
    assert deserialize_message(serialize_message(sent), msg.ActionChunk) == sent


def test_python_and_ros_name_the_same_version():
    version = ElementTree.parse(TREE / 'package.xml').findtext('version')
    assert importlib.metadata.version('cosmos3_ros') == version


@pytest.mark.parametrize('name', ['cosmos3_node', 'rig_node'])
def test_node_is_where_launch_looks(name):
    assert os.access(find_prefix() / 'lib' / 'cosmos3_ros' / name, os.X_OK)


@pytest.mark.parametrize('folder', ['launch', 'config'])
def test_share_folder_is_installed(folder):
    wanted = {path.name for path in (TREE / folder).iterdir() if path.is_file()}
    assert wanted and wanted <= {path.name for path in (share_directory() / folder).iterdir()}


def test_every_module_keeps_to_its_layer():
    assert list(violations(SOURCES)) == []


@pytest.mark.parametrize('path, code', [
    ('model/a.py', 'from cosmos3_ros.tasks import b'),
    ('model/a.py', 'from ..tasks.b import c'),
    ('droid/a.py', 'from .. import control'),
    ('tasks/a.py', 'import cosmos3_ros.engine.b'),
    ('ros/a.py', 'def late():\n    from cosmos3_ros.cli import main'),
    ('droid/a.py', 'import torch.nn'),
    ('rig/a.py', 'from rclpy.node import Node'),
    ('rig/a.py', 'from sensor_msgs.msg import Image'),
    ('control/a.py', 'from cosmos3_ros.msg import ActionChunk'),
    ('cli.py', 'import rclpy'),
])
def test_import_across_layers_is_found(tmp_path, path, code):
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(code)
    assert len(list(violations(tmp_path))) == 1


IMPORT_ALL = """
import logging, pkgutil
before = logging.root.level, list(logging.root.handlers), list(logging.root.filters)
import cosmos3_ros
for module in pkgutil.walk_packages(cosmos3_ros.__path__, 'cosmos3_ros.'):
    __import__(module.name)
assert (logging.root.level, logging.root.handlers, logging.root.filters) == before, logging.root
"""


def test_imports_leave_the_root_logger_alone():
    done = subprocess.run([sys.executable, '-c', IMPORT_ALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def violations(package):
    """Yields a line for each import of a file in `package` that its layer forbids."""
    for path in sorted(package.rglob('*.py')):
        place = path.relative_to(package).with_suffix('').parts
        if place[0] not in LAYERS:
            continue
        for name in imported(path, place):
            if not allowed(place[0], name):
                yield f'{"/".join(place)}.py imports {name}'


def imported(path, place):
    """Absolute names of all modules that the file imports, wherever it does so."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ''
            if node.level:
                inside = ('cosmos3_ros', *place[:-1])
                base = '.'.join([*inside[:len(inside) - node.level + 1], *filter(None, [base])])
            if base == 'cosmos3_ros':
                yield from (f'{base}.{alias.name}' for alias in node.names)
            else:
                yield base


def allowed(layer, name):
    first, _, rest = name.partition('.')
    if first == 'torch':
        return layer in ('model', 'tasks', 'engine', 'bench')
    if first == 'cosmos3_ros':
        other = rest.split('.')[0]
        if other in LAYERS:
            return LAYERS.index(other) <= LAYERS.index(layer)
        return layer == 'ros' or other not in INTERFACES
    return layer == 'ros' or not (first in ROS_MODULES or first.endswith('_msgs'))
