# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""An observation is checked when it is made; a request carries it in the network's terms."""
import json

import numpy as np
import pytest

from cosmos3_ros.droid.observation import CAMERAS, Observation, ObservationError
from cosmos3_ros.droid.recipe import RECIPE, STEP, request


def observe(**changes):
    pictures = {name: np.full((360, 640, 3), 40 * index, np.uint8)
                for index, name in enumerate(CAMERAS)}
    fields = {'instruction': 'push', 'pictures': pictures, 'joints': np.zeros(7), 'gripper': 0.25}
    return Observation(**{**fields, **changes})


def test_joints_become_float64():
    joints = observe(joints=[1, 2, 3, 4, 5, 6, 7]).joints
    assert joints.dtype == np.float64 and joints.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_later_changes_of_the_source_do_not_reach_the_observation():
    source = np.zeros(7)
    observation = observe(joints=source)
    source[:] = 9
    assert (observation.joints == 0).all()


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
def test_a_joint_that_is_not_finite_is_named_by_index(value):
    joints = np.zeros(7)
    joints[4] = value
    with pytest.raises(ObservationError, match=rf'joints\[4\]: found {value}'):
        observe(joints=joints)


@pytest.mark.parametrize('shape', [(6,), (8,), (1, 7), ()])
def test_another_number_of_joints_is_refused(shape):
    with pytest.raises(ObservationError, match=r'wanted \[7\]'):
        observe(joints=np.zeros(shape))


@pytest.mark.parametrize('value', [np.nan, np.inf, 85.0, -0.5])
def test_a_gripper_in_other_units_is_refused(value):
    with pytest.raises(ObservationError, match='gripper: found.*0 .open. to 1 .closed.'):
        observe(gripper=value)


def test_a_gripper_a_little_past_its_stop_is_taken_as_it_is():
    assert observe(gripper=-0.02).gripper == -0.02


def test_missing_pictures_are_named():
    with pytest.raises(ObservationError, match='no picture of wrist, exterior_left, exterior_r'):
        observe(pictures={})


def test_request_holds_picture_prompt_state_and_seed():
    joints = np.arange(7) / 10
    asked = request(observe(joints=joints, gripper=0.25), seed=12)
    assert asked.picture.shape == (540, 640, 3)
    assert json.loads(asked.prompt)['resolution'] == {'H': 544, 'W': 736}
    assert json.loads(asked.prompt)['actions'][0]['description'] == 'push.'
    assert np.array_equal(asked.state, np.float32([*joints, 0.75]))
    assert (asked.seed, asked.recipe) == (12, RECIPE)


def test_recipe_is_the_released_one():
    assert (RECIPE.num_frames, RECIPE.fps, RECIPE.tier) == (33, 15.0, 480)
    assert (RECIPE.steps, RECIPE.shift, RECIPE.guidance) == (4, 5.0, 3.0)
    assert RECIPE.guidance_interval == (960.0, 1001.0)
    assert (RECIPE.domain, RECIPE.action_width, RECIPE.action_offset) == (8, 8, 0)
    assert STEP * 15 == pytest.approx(1)
