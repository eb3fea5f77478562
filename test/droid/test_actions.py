# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""State row and joint targets."""
import json
from pathlib import Path

import numpy as np
import pytest

from cosmos3_ros.droid.actions import joint_targets, state_row

DATA = Path(__file__).parents[1] / 'data' / 'droid'
REFERENCE = json.loads((DATA / 'action_rows.json').read_text())


@pytest.mark.parametrize('name', REFERENCE)
def test_state_row_equals_the_reference(name):
    entry = REFERENCE[name]
    joints = np.array(entry['joint']).reshape(-1, 7)[-1]    # of several rows the last counts
    gripper = np.array(entry['gripper']).ravel()[-1]
    row = state_row(joints, gripper)
    assert row.dtype == np.float32
    assert row.tolist() == entry['row0']


def test_targets_equal_the_reference():
    data = np.load(DATA / 'action_rows.npz')
    targets = joint_targets(data['rows'][1:, :8])
    assert targets.dtype == np.float64
    assert np.array_equal(targets.astype(np.float32), data['out'])


def test_gripper_is_reversed_on_the_way_in_and_back_on_the_way_out():
    joints = np.linspace(-1, 1, 7)
    for gripper in (0.0, 1.0):
        row = state_row(joints, gripper)
        assert row[7] == 1 - gripper
        assert joint_targets(row[None])[0, 7] == gripper


def test_angles_pass_unchanged_and_the_source_stays_as_it_was():
    rows = np.random.RandomState(0).standard_normal((32, 8)).astype(np.float32)
    before = rows.copy()
    targets = joint_targets(rows)
    assert np.array_equal(targets[:, :7], rows[:, :7].astype(np.float64))
    assert np.array_equal(rows, before)


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r'\[32, 10\], wanted \[h, 8\]'):
        joint_targets(np.zeros((32, 10), np.float32))
