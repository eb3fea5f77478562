# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The gripper is open or closed; thresholds, polarity and seams."""
import numpy as np
import pytest

from cosmos3_ros.control.gate import GateError
from cosmos3_ros.control.gripper import GripperRange, GripperSplicer, hysteresis

STEP = 1 / 15


@pytest.mark.parametrize('open_position, closed_position', [(0.0, 0.8), (0.8, 0.0), (0.04, 0.0),
                                                            (-0.2, -1.1)])
def test_open_stays_open_there_and_back(open_position, closed_position):
    mapping = GripperRange(open_position, closed_position)
    assert mapping.to_fraction(open_position) == 0
    assert mapping.to_fraction(closed_position) == 1
    assert mapping.to_position(0.0) == open_position
    assert mapping.to_position(1.0) == pytest.approx(closed_position)
    values = np.linspace(0, 1, 5)
    assert mapping.to_fraction(mapping.to_position(values)) == pytest.approx(values)


def test_default_range_is_a_robotiq_finger_joint():
    assert GripperRange().to_fraction(0.6) == pytest.approx(0.75)


def test_a_range_without_travel_is_refused():
    with pytest.raises(ValueError, match='open at 0.5, closed at 0.5'):
        GripperRange(0.5, 0.5)


def test_hysteresis_changes_only_beyond_its_thresholds():
    values = np.array([0.5, 0.64, 0.66, 0.5, 0.36, 0.34, 0.5, 0.64, 0.7])
    expected = [False, False, True, True, True, False, False, False, True]
    assert hysteresis(values, closed=False).tolist() == expected


def test_before_the_first_row_the_command_in_force_counts():
    assert hysteresis(np.array([0.5]), closed=True).tolist() == [True]
    assert hysteresis(np.array([0.5]), closed=False).tolist() == [False]


def test_noise_around_the_middle_never_moves_the_gripper():
    noise = np.random.RandomState(0).uniform(0.36, 0.64, 500)
    assert not hysteresis(noise, closed=False).any()
    assert hysteresis(noise, closed=True).all()


def interpolated(times, positions, at):
    return np.interp(at, times, positions)


def test_a_change_is_a_step_for_a_controller_that_interpolates():
    splicer = GripperSplicer(GripperRange(0.0, 0.8))
    times = 0.2 + STEP * np.arange(6)
    points, positions = splicer.splice(100.0, times, np.array([0, 0, 0, 1, 1, 1.0]), now=100.1)
    assert set(positions.tolist()) == {0.0, 0.8}
    assert (np.diff(points) > 0).all() and points[0] > 0.1
    change = times[3]
    assert interpolated(points, positions, change - 0.002) == 0
    assert interpolated(points, positions, change) == pytest.approx(0.8)


def test_positions_are_in_the_joints_own_units_and_direction():
    splicer = GripperSplicer(GripperRange(open_position=0.04, closed_position=0.0))
    _, positions = splicer.splice(0.0, np.array([0.1, 0.2]), np.array([0.0, 0.9]), now=0.0)
    assert positions.tolist() == [0.04, 0.04, 0.0]


def test_a_change_at_the_first_row_is_held_until_it_is_due():
    splicer = GripperSplicer(GripperRange(), closed=True)
    points, positions = splicer.splice(0.0, np.array([0.1]), np.array([0.0]), now=0.0)
    assert positions.tolist() == [0.8, 0.0]
    assert 0.09 < points[0] < points[1] == 0.1


def test_the_decision_in_force_at_the_seam_is_the_one_last_due():
    splicer = GripperSplicer(GripperRange())
    times = STEP * np.arange(1, 11)
    closing = np.where(np.arange(10) < 5, 0.0, 1.0)
    splicer.splice(0.0, times, closing, now=0.0)
    assert [splicer.closed_at(t) for t in (0.0, times[4], times[5], 9.0)] == [
        False, False, True, True]
    early, late = GripperSplicer(GripperRange()), GripperSplicer(GripperRange())
    undecided = np.full(10, 0.5)
    for splicer, now, closed in ((early, 0.2, False), (late, 0.5, True)):
        splicer.splice(0.0, times, closing, now=0.0)
        _, positions = splicer.splice(now - 0.05, 0.15 + times, undecided, now=now)
        assert (positions == (0.8 if closed else 0.0)).all()


def test_reset_takes_the_given_state():
    splicer = GripperSplicer(GripperRange())
    splicer.splice(0.0, np.array([0.1]), np.array([1.0]), now=0.0)
    splicer.reset(closed=False)
    assert splicer.closed_at(5.0) is False


def test_a_value_that_is_not_finite_is_refused_and_changes_nothing():
    splicer = GripperSplicer(GripperRange(), closed=True)
    with pytest.raises(GateError, match='row 1, column 0 .gripper.: found nan'):
        splicer.splice(0.0, np.array([0.1, 0.2]), np.array([0.0, np.nan]), now=0.0)
    assert splicer.closed_at(1.0) is True
