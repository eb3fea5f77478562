# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The simulated cell against the published arm, and as a robot: it reaches, stops and grips."""
import mujoco
import numpy as np
import pytest

from cosmos3_ros.rig.simulation import ARM_JOINTS, JOINTS, Cell

# Franka Control Interface documentation, modified DH parameters: a, d, alpha per joint, flange.
DH = [(0, 0.333, 0), (0, 0, -np.pi / 2), (0, 0.316, np.pi / 2), (0.0825, 0, np.pi / 2),
      (-0.0825, 0.384, -np.pi / 2), (0, 0, np.pi / 2), (0.088, 0, np.pi / 2), (0, 0.107, 0)]
LOWER = [-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973]
UPPER = [2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973]
SPEED = [2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61]
EFFORT = [87, 87, 87, 87, 12, 12, 12]


@pytest.fixture
def cell():
    cell = Cell()
    yield cell
    cell.close()


def published_flange(joints):
    pose = np.eye(4)
    for (a, d, alpha), theta in zip(DH, [*joints, 0.0]):
        ca, sa, ct, st = np.cos(alpha), np.sin(alpha), np.cos(theta), np.sin(theta)
        pose = pose @ np.array([[ct, -st, 0, a], [st * ca, ct * ca, -sa, -sa * d],
                                [st * sa, ct * sa, ca, ca * d], [0, 0, 0, 1]])
    return pose


def test_flange_follows_the_published_kinematics(cell):
    random = np.random.default_rng(7)
    for joints in random.uniform(LOWER, UPPER, (20, 7)):
        for name, angle in zip(ARM_JOINTS, joints):
            cell.data.joint(name).qpos = angle
        mujoco.mj_kinematics(cell.model, cell.data)
        wanted, flange = published_flange(joints), cell.data.site('flange')
        np.testing.assert_allclose(flange.xpos, wanted[:3, 3], atol=1e-9)
        np.testing.assert_allclose(flange.xmat.reshape(3, 3), wanted[:3, :3], atol=1e-9)


def test_limits_are_the_published_ones(cell):
    np.testing.assert_array_equal(cell.position_limits[:7], np.transpose([LOWER, UPPER]))
    np.testing.assert_array_equal(cell.velocity_limits[:7], SPEED)
    np.testing.assert_array_equal(cell.effort_limits[:7], EFFORT)


def test_reset_returns_to_the_droid_pose(cell):
    cell.set_target({'panda_joint1': 1.0, 'finger_joint': 0.8})
    cell.step(0.5)
    cell.reset()
    assert cell.time == 0
    expected = [0, -np.pi / 5, 0, -4 * np.pi / 5, 0, 3 * np.pi / 5, 0, 0]
    assert cell.positions() == dict(zip(JOINTS, expected))


def test_arm_and_objects_rest_at_reset(cell):
    objects = ('red_block', 'blue_block', 'green_block', 'bowl', 'banana', 'can')
    before, places = cell.positions(), [cell.data.body(name).xpos.copy() for name in objects]
    cell.step(2.0)
    assert cell.positions() == pytest.approx(before, abs=1e-4)
    for name, place in zip(objects, places):
        np.testing.assert_allclose(cell.data.body(name).xpos, place, atol=2e-3, err_msg=name)


def test_targets_are_reached(cell):
    target = dict(zip(JOINTS, [0.4, -0.2, 0.3, -2.0, -0.3, 2.2, 0.5, 0.4]))
    cell.set_target(target, over=1.0)
    cell.step(1.5)
    assert cell.positions() == pytest.approx(target, abs=2e-3)
    assert cell.velocities() == pytest.approx(dict.fromkeys(JOINTS, 0.0), abs=1e-2)


def test_arm_follows_a_moving_target_without_lag(cell):
    for i in range(1, 31):
        target = -np.pi / 5 + 0.5 * np.sin(i / 15)
        cell.set_target({'panda_joint2': target}, over=1 / 15)
        cell.step(i / 15 - cell.time)
        assert cell.positions()['panda_joint2'] == pytest.approx(target, abs=5e-3)


def test_a_far_target_is_approached_within_the_velocity_limits(cell):
    cell.set_target({'panda_joint1': 2.5, 'panda_joint7': -2.5})
    cell.step(0.8)
    positions = cell.positions()
    assert positions['panda_joint1'] == pytest.approx(2.175 * 0.8, abs=0.03)
    assert positions['panda_joint7'] == pytest.approx(-2.61 * 0.8, abs=0.03)


def test_a_target_past_the_range_stops_at_the_limit(cell):
    cell.set_target({'panda_joint4': 1.0})
    cell.step(2.0)
    assert cell.positions()['panda_joint4'] == pytest.approx(-0.0698, abs=1e-3)


def test_the_table_stops_the_arm(cell):
    cell.set_target({'panda_joint2': 1.3, 'panda_joint4': -1.0})
    cell.step(3.0)
    reading = cell.read()
    assert cell.data.site('flange').xpos[2] > 0
    assert reading.positions[1] < 1.2
    assert np.abs(reading.efforts[:7]).max() <= 87
    assert np.abs(reading.velocities).max() < 0.05


@pytest.mark.parametrize('targets, message', [
    ({'panda_joint8': 0.0}, 'panda_joint8'), ({'panda_joint3': np.nan}, 'panda_joint3 is nan')])
def test_bad_targets_are_refused(cell, targets, message):
    with pytest.raises(ValueError, match=message):
        cell.set_target(targets)


def pad_gap(cell):
    left, right = cell.data.geom('left_pad').xpos, cell.data.geom('right_pad').xpos
    thickness = cell.model.geom('left_pad').size[1] + cell.model.geom('right_pad').size[1]
    return np.linalg.norm(left - right) - thickness


def test_gripper_opens_85_mm_and_closes(cell):
    assert pad_gap(cell) == pytest.approx(0.085, abs=1e-3)
    cell.set_target({'finger_joint': 0.8})
    cell.step(1.0)
    assert cell.gripper == pytest.approx(0.8, abs=1e-3)
    assert pad_gap(cell) == pytest.approx(0, abs=1e-3)
    cell.set_target({'finger_joint': 0.0})
    cell.step(1.0)
    assert pad_gap(cell) == pytest.approx(0.085, abs=1e-3)


def test_gripper_holds_a_block_while_the_arm_moves(cell):
    joint = cell.model.body('red_block').jntadr[0]
    between = (cell.data.geom('left_pad').xpos + cell.data.geom('right_pad').xpos) / 2
    start = cell.model.jnt_qposadr[joint]
    cell.data.qpos[start:start + 3] = between - [0, 0, 0.01]
    gravity = cell.model.opt.gravity.copy()
    cell.model.opt.gravity[:] = 0
    cell.set_target({'finger_joint': 0.8})
    cell.step(1.0)
    cell.model.opt.gravity[:] = gravity
    cell.set_target({'panda_joint1': 0.6, 'panda_joint6': 2.2}, over=0.7)
    cell.step(2.0)
    block = cell.data.body('red_block').xpos
    between = (cell.data.geom('left_pad').xpos + cell.data.geom('right_pad').xpos) / 2
    assert 0.2 < cell.gripper < 0.6
    assert np.linalg.norm(block - between) < 0.02
