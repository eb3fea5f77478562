# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Scores against values computed by hand."""
import numpy as np
import pytest

from cosmos3_ros.replay import scores

STEP = 100                              # ns
RAMP = 0.1 * np.arange(8.0)             # a tenth of a rad a row


def chunk(shift=0.0, delay=0):
    """Rows [8, 8]: joint 0 on a ramp, the others at rest, the gripper closing at row 4."""
    rows = np.zeros((8, 8))
    rows[:, 0] = RAMP - 0.1 * delay + shift
    rows[4 + delay:, 7] = 1.0
    return rows


def test_equal_rows_have_no_error():
    assert not scores.joint_errors(chunk()[None], chunk()[None]).any()


def test_shift_of_one_joint_is_that_joints_error():
    errors = scores.joint_errors(chunk(shift=0.25)[None], chunk()[None])
    assert np.allclose(errors[..., 0], 0.25) and not errors[..., 1:].any()
    assert scores.spread(errors)['mean'] == pytest.approx(0.25 / 7)


def test_delay_of_two_rows_on_a_ramp_is_two_steps_of_it():
    errors = scores.joint_errors(chunk(delay=2)[None], chunk()[None])
    assert np.allclose(errors[..., 0], 0.2)


def test_swapped_joints_both_have_the_distance_between_them():
    swapped = chunk()[:, [1, 0, 2, 3, 4, 5, 6, 7]]
    errors = scores.joint_errors(swapped[None], chunk()[None])
    assert np.allclose(errors[0, :, 0], RAMP) and np.allclose(errors[0, :, 1], RAMP)
    assert scores.spread(errors)['max'] == pytest.approx(0.7)


@pytest.mark.parametrize('predicted, agreement', [
    (chunk(), 1.0), (chunk(delay=2), 0.75), (1 - chunk(), 0.0)])
def test_gripper_agreement_counts_rows(predicted, agreement):
    assert scores.gripper_agreement(predicted[None, :, 7], chunk()[None, :, 7]) == agreement


def test_unrecorded_rows_are_left_out():
    recorded = chunk()
    recorded[4:] = np.nan
    errors = scores.joint_errors(chunk(shift=0.25)[None], recorded[None])
    assert scores.spread(errors[..., 0])['mean'] == pytest.approx(0.25)
    assert scores.gripper_agreement(1 - chunk()[None, :, 7], recorded[None, :, 7]) == 0.0


def test_late_gripper_is_late_by_two_rows():
    times = np.arange(8) * 100_000_000
    found = scores.switch_timing(times, chunk(delay=2)[:, 7], chunk()[:, 7])
    assert found == {'delays_s': [pytest.approx(0.2)], 'missed': 0, 'spurious': 0}


def test_gripper_that_never_closes_misses_the_switch():
    times = np.arange(8) * 100_000_000
    assert scores.switch_timing(times, np.zeros(8), chunk()[:, 7])['missed'] == 1
    assert scores.switch_timing(times, chunk()[:, 7], np.zeros(8))['spurious'] == 1


def test_robot_follows_a_chunk_until_the_next_is_there():
    stamps, ready = np.array([0, 400]), np.array([200, 600])
    times, rows = scores.executed(stamps, ready, np.stack([chunk(), chunk(shift=1)]), STEP)
    assert times.tolist() == [200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100]
    assert rows[:, 0] == pytest.approx([0.2, 0.3, 0.4, 0.5, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7])


def test_seam_and_disagreement_are_the_step_between_chunks():
    # after four rows the ramp of the old chunk is at 0.4, and the new one starts at 0.5
    stamps, targets = np.array([0, 400]), np.stack([chunk(), chunk(shift=0.5)])
    jumps = scores.seam_jumps(stamps, stamps, targets, STEP)
    assert jumps[0] == pytest.approx([0.1, 0, 0, 0, 0, 0, 0])
    assert scores.disagreement(stamps, targets, STEP) == pytest.approx([0.1 / 7])


def test_jerk_of_a_cubic_is_six_times_its_factor():
    rows = np.zeros((1, 8, 8))
    rows[0, :, :7] = (2.0 * (0.5 * np.arange(8)) ** 3)[:, None]
    assert scores.jerk(rows, 0.5) == pytest.approx(12.0)
    assert scores.jerk(chunk()[None], 0.5) == pytest.approx(0.0, abs=1e-9)
