# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The launch file, with stand-ins for launch and launch_ros where they are not installed."""
import importlib.util
from pathlib import Path
import sys
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Recorded(SimpleNamespace):
    """Remembers what it was made from."""

    def __init__(self, *args, **kwargs):
        super().__init__(args=args, **kwargs)


class Configuration(Recorded):
    def perform(self, context):
        return context[self.args[0]]


@pytest.fixture
def launch_file(monkeypatch):
    stand_ins = {
        'launch': {'LaunchDescription': Recorded},
        'launch.actions': {'DeclareLaunchArgument': Recorded, 'OpaqueFunction': Recorded},
        'launch.substitutions': {'LaunchConfiguration': Configuration},
        'launch_ros': {},
        'launch_ros.actions': {'Node': Recorded},
        'launch_ros.parameter_descriptions': {'ParameterValue': Recorded}}
    for name, members in stand_ins.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location(
        'cosmos3_launch', ROOT / 'launch' / 'cosmos3.launch.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def process(launch_file, **given):
    """The process that the launch file starts with some arguments, and all arguments."""
    *arguments, function = launch_file.generate_launch_description().args[0]
    values = {argument.args[0]: argument.default_value for argument in arguments} | given
    return function.function(values)[0], arguments


def test_every_argument_is_described(launch_file):
    _, arguments = process(launch_file)
    assert {argument.args[0] for argument in arguments} == {
        'params_file', 'namespace', 'use_sim_time', 'log_level', 'checkpoint',
        'policy_checkpoint', 'autostart'}
    assert all(argument.description for argument in arguments)


def test_arguments_left_empty_leave_the_parameter_file_alone(launch_file):
    node, _ = process(launch_file)
    file, overrides = node.parameters
    assert Path(file) == ROOT / 'config' / 'cosmos3.yaml' and Path(file).is_file()
    assert set(overrides) == {'use_sim_time'}


def test_arguments_that_are_given_override_the_file(launch_file):
    node, _ = process(launch_file, checkpoint='random:tiny', autostart='false', namespace='left')
    overrides = node.parameters[1]
    assert overrides['checkpoint'].args == ('random:tiny',)
    assert overrides['checkpoint'].value_type is str
    assert overrides['autostart'].value_type is bool
    assert node.namespace == 'left'


def test_transport_profile_is_set_and_the_users_own_is_kept(launch_file, monkeypatch):
    variable = 'FASTRTPS_DEFAULT_PROFILES_FILE'
    monkeypatch.delenv(variable, raising=False)
    assert Path(process(launch_file)[0].additional_env[variable]).is_file()
    monkeypatch.setenv(variable, '/my/profile.xml')
    assert process(launch_file)[0].additional_env[variable] == '/my/profile.xml'
