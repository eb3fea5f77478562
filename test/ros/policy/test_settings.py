# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of the policy node and the file that lists them."""
from pathlib import Path

import pytest
import yaml

from cosmos3_ros.ros.policy.settings import POLICY, Settings
from cosmos3_ros.ros.reasoner.settings import REASONER
from cosmos3_ros.ros.world_model.settings import WORLD_MODEL

CONFIG = Path(__file__).resolve().parents[3] / 'config' / 'cosmos3.yaml'
HOST = {'device': 'auto', 'autostart': True, 'nodes': ['policy', 'world_model', 'reasoner'],
        'share.reasoner': 1.0, 'share.world_model': 1.0, 'max_step_ms': -1.0, 'trace': ''}
DEFAULTS = {name: parameter.default for name, parameter in POLICY.items()}


def flat(tree, prefix=''):
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f'{prefix}{name}.')
        else:
            yield f'{prefix}{name}', value


def test_file_lists_every_parameter_with_its_default_in_any_namespace():
    tree = yaml.safe_load(CONFIG.read_text())
    assert list(tree) == ['/**']
    values = dict(flat(tree['/**']['ros__parameters']))
    wanted = HOST | {name: one.default for name, one in (WORLD_MODEL | REASONER | POLICY).items()}
    assert values == wanted
    assert all(type(values[name]) is type(default) for name, default in wanted.items())


def test_nodes_agree_on_the_parameters_that_they_share():
    for other in (WORLD_MODEL, REASONER):
        shared = other.keys() & POLICY.keys()
        assert 'checkpoint' in shared and 'max_camera_age' in shared
        assert all(other[name].default == POLICY[name].default for name in shared)
    assert not (WORLD_MODEL.keys() & REASONER.keys()) - POLICY.keys()


def test_every_parameter_is_described():
    for name, parameter in (POLICY | WORLD_MODEL | REASONER).items():
        assert parameter.description.endswith('.'), name
        assert parameter.limits is None or parameter.descriptor().read_only == parameter.fixed


@pytest.mark.parametrize('change, said', [
    ({'arm_joints': ['a', 'b']}, "arm_joints: found ['a', 'b'], wanted 7 different names"),
    ({'gripper_joint': 'panda_joint7'}, 'without that of the gripper joint'),
    ({'gripper_closed': 0.0}, 'wanted two different positions'),
    ({'cameras.wrist.transport': 'h264'}, "found 'h264', wanted one of raw, compressed"),
    ({'max_chunk_age': 2.5}, 'wanted at most give_up_age, which is 2.4 s'),
])
def test_values_that_do_not_fit_say_what_was_found_and_wanted(change, said):
    with pytest.raises(ValueError) as error:
        Settings(DEFAULTS | change)
    assert said in str(error.value)


def test_policy_checkpoint_falls_back_to_checkpoint():
    assert Settings(DEFAULTS | {'checkpoint': 'a'}).policy_checkpoint == 'a'
    both = Settings(DEFAULTS | {'checkpoint': 'a', 'policy_checkpoint': 'b'})
    assert both.policy_checkpoint == 'b'
