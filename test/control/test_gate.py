# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the gate lets through, what it refuses and what it says."""
import numpy as np
import pytest

from cosmos3_ros.control.gate import FRANKA, Gate, GateError, check_finite

HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])


def chunk(rows=32):
    """A slow motion from home: 0.01 rad a row."""
    return HOME + 0.01 * np.arange(rows)[:, None]


def test_a_plain_chunk_passes_unchanged():
    checked = Gate(FRANKA).check(chunk(), HOME, HOME + 0.05, due=5)
    assert np.array_equal(checked.positions, chunk())
    assert checked.excess == {}


def test_the_source_is_left_alone():
    positions = chunk()
    Gate(FRANKA, on_excess='limit').check(positions, HOME, HOME - 1)
    assert np.array_equal(positions, chunk())


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('on_excess', ['refuse', 'limit'])
def test_a_value_that_is_not_finite_is_refused_and_never_clamped(value, on_excess):
    positions = chunk()
    positions[7, 3] = value
    with pytest.raises(GateError, match='row 7, column 3 .panda_joint4.: found') as error:
        Gate(FRANKA, on_excess=on_excess).check(positions, HOME, HOME)
    assert (error.value.row, error.value.joint) == (7, 'panda_joint4')


def test_finite_is_tested_before_limits():
    positions = chunk()
    positions[0, 0], positions[9, 1] = 99, np.nan
    with pytest.raises(GateError, match='row 9'):
        Gate(FRANKA).check(positions, HOME, HOME)


def test_limits_are_tested_before_jumps():
    positions = chunk()
    positions[2, 0], positions[20, 3] = 1.0, 0.0     # a jump first, then past joint 4's -0.0698
    with pytest.raises(GateError, match='row 20, panda_joint4: found 0.0000 rad, wanted -3.0718 '
                                        'to -0.0698'):
        Gate(FRANKA).check(positions, HOME, HOME)


def test_finite_check_takes_any_columns():
    rows = np.zeros((4, 8))
    check_finite(rows, [*FRANKA.names, 'gripper'])
    rows[2, 7] = np.inf
    with pytest.raises(GateError, match='row 2, column 7 .gripper.'):
        check_finite(rows, [*FRANKA.names, 'gripper'])


def test_first_row_far_from_the_state_in_the_request_is_refused():
    state = HOME.copy()
    state[5] -= 0.26
    with pytest.raises(GateError, match=r'row 0, panda_joint6: found \+0.2600 rad away from the '
                                        'state in the request, wanted at most 0.2500'):
        Gate(FRANKA).check(chunk(), state, HOME)
    state[5] += 0.02
    Gate(FRANKA).check(chunk(), state, HOME)


def test_a_jump_between_rows_is_refused():
    positions = chunk()
    positions[11:, 2] -= 0.22                        # with the motion itself, -0.21
    with pytest.raises(GateError, match=r'row 11, panda_joint3: found -0.2100 rad away from the '
                                        'row before, wanted at most 0.2000'):
        Gate(FRANKA).check(positions, HOME, HOME)
    positions[11:, 2] += 0.02
    Gate(FRANKA).check(positions, HOME, HOME)


def test_the_row_due_now_is_compared_with_the_present_state():
    gate = Gate(FRANKA)
    present = HOME + 0.1 + np.array([0, 0, 0, 0, 0.24, 0, 0])
    gate.check(chunk(), HOME, present, due=10)
    with pytest.raises(GateError, match='row 8, panda_joint5: found -0.2600 rad away from the '
                                        'present state'):
        gate.check(chunk(), HOME, present, due=8)


@pytest.mark.parametrize('what, arguments', [('state in the request', (np.nan, 0.0)),
                                             ('present state', (0.0, np.inf))])
def test_a_measured_state_that_is_not_finite_is_refused(what, arguments):
    state, present = (HOME + np.array([0, value, 0, 0, 0, 0, 0]) for value in arguments)
    for on_excess in ('refuse', 'limit'):
        with pytest.raises(GateError, match=f'{what}, panda_joint2: found'):
            Gate(FRANKA, on_excess=on_excess).check(chunk(), state, present)


def test_due_past_the_last_row_is_refused():
    with pytest.raises(GateError, match='row 32 is due and there are 32 rows'):
        Gate(FRANKA).check(chunk(), HOME, HOME, due=32)


def test_another_number_of_joints_is_refused():
    with pytest.raises(GateError, match=r'found shape \[32, 6\], wanted \[h, 7\]'):
        Gate(FRANKA).check(chunk()[:, :6], HOME, HOME)


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="found 'clip', wanted 'refuse' or 'limit'"):
        Gate(FRANKA, on_excess='clip')


@pytest.mark.parametrize('seed', range(20))
def test_limit_makes_any_finite_chunk_executable(seed):
    random = np.random.RandomState(seed)
    positions = random.standard_normal((32, 7)) * 10.0 ** random.uniform(-2, 3)
    present, due = random.uniform(FRANKA.lower, FRANKA.upper), random.randint(32)
    checked = Gate(FRANKA, step_jump=0.05, on_excess='limit').check(positions, HOME, present, due)
    executed = np.vstack([present, checked.positions[due:]])
    assert np.isfinite(checked.positions).all()
    assert (executed >= FRANKA.lower).all() and (executed <= FRANKA.upper).all()
    assert np.abs(np.diff(executed, axis=0)).max() <= 0.05 + 1e-12
    moved = np.abs(checked.positions - positions).max(axis=0)
    assert [checked.excess.get(name, 0.0) for name in FRANKA.names] == moved.tolist()


def test_limit_reaches_a_target_within_reach():
    target = HOME + 0.3
    checked = Gate(FRANKA, step_jump=0.1, on_excess='limit').check(
        np.tile(target, (5, 1)), HOME, HOME)
    assert np.allclose(checked.positions[:, 0], [0.1, 0.2, 0.3, 0.3, 0.3])


def test_franka_limits_hold_the_published_ready_pose():
    assert FRANKA.names == ('panda_joint1', 'panda_joint2', 'panda_joint3', 'panda_joint4',
                            'panda_joint5', 'panda_joint6', 'panda_joint7')
    assert (FRANKA.lower < HOME).all() and (HOME < FRANKA.upper).all()
    assert np.allclose(np.rad2deg(FRANKA.upper), [166, 101, 166, -4, 166, 215, 166], atol=0.1)
    assert np.allclose(np.rad2deg(FRANKA.lower), [-166, -101, -166, -176, -166, -1, -166], atol=0.1)
    assert np.allclose(np.rad2deg(FRANKA.max_velocity), [124.6] * 4 + [149.5] * 3, atol=0.1)
