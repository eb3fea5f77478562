# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the three cameras see."""
import numpy as np
import pytest

from cosmos3_ros.rig.pictures import Pictures, camera_matrix
from cosmos3_ros.rig.simulation import CAMERAS, Cell

WIDTH, HEIGHT = 320, 180


@pytest.fixture(scope='module')
def cell():
    cell = Cell()
    yield cell
    cell.close()


@pytest.fixture(autouse=True)
def reset(cell):
    cell.reset()


def yellow(rgb):
    red, green, blue = np.moveaxis(rgb.astype(int), -1, 0)
    return (red > 140) & (green > 100) & (blue < 60)


@pytest.mark.parametrize('camera', CAMERAS)
def test_every_camera_sees_the_banana(cell, camera):
    picture = cell.render(camera, WIDTH, HEIGHT)
    assert picture.shape == (HEIGHT, WIDTH, 3) and picture.dtype == np.uint8
    assert yellow(picture).sum() > 50


def test_exterior_cameras_are_on_their_own_sides(cell):
    columns = {}
    for camera in CAMERAS[1:]:
        bowl = cell.render(camera, WIDTH, HEIGHT).astype(int)
        near_shell = (bowl.min(axis=-1) > 200).nonzero()[1]
        columns[camera] = near_shell.mean()
    assert columns['exterior_left'] > WIDTH / 2 > columns['exterior_right']


@pytest.mark.parametrize('camera', CAMERAS)
def test_a_moving_arm_changes_every_picture(cell, camera):
    before = cell.render(camera, WIDTH, HEIGHT).astype(int)
    cell.set_target({'panda_joint1': 0.4}, over=0.5)
    cell.step(0.6)
    after = cell.render(camera, WIDTH, HEIGHT).astype(int)
    assert (np.abs(after - before).max(axis=-1) > 20).mean() > 0.03


def test_wrist_camera_sees_the_fingers_close(cell):
    before = cell.render('wrist', WIDTH, HEIGHT).astype(int)
    cell.set_target({'finger_joint': 0.8})
    cell.step(0.6)
    change = np.abs(cell.render('wrist', WIDTH, HEIGHT).astype(int) - before).max(axis=-1) > 20
    assert change[HEIGHT // 2:].mean() > 0.05
    assert change[:HEIGHT // 3].mean() < 0.01


def test_pictures_of_a_snapshot_equal_the_cell_s_own(cell):
    pictures = Pictures(cell.model)
    pictures.place(cell.qpos)
    picture = pictures.render('wrist', WIDTH, HEIGHT)
    pictures.close()
    np.testing.assert_array_equal(picture, cell.render('wrist', WIDTH, HEIGHT))


def test_shadows_darken_the_table(cell):
    plain = cell.render('exterior_left', WIDTH, HEIGHT)
    shadowed = cell.render('exterior_left', WIDTH, HEIGHT, shadows=True)
    assert shadowed.mean() < plain.mean() - 1


def test_sizes_may_change(cell):
    assert cell.render('wrist', 64, 48).shape == (48, 64, 3)
    assert cell.render('wrist', 640, 360).shape == (360, 640, 3)
    with pytest.raises(ValueError, match='5000x10'):
        cell.render('wrist', 5000, 10)


@pytest.mark.parametrize('camera', ['exterior_left', 'exterior_right'])
def test_camera_matrix_projects_the_banana_where_it_is_seen(cell, camera):
    matrix = camera_matrix(cell.model, camera, 640, 360)
    pose = cell.data.camera(camera)
    in_camera = pose.xmat.reshape(3, 3).T @ (cell.data.body('banana').xpos - pose.xpos)
    u, v, w = matrix @ (in_camera * [1, -1, -1])  # OpenGL axes to optical axes
    rows, columns = yellow(cell.render(camera, 640, 360)).nonzero()
    assert abs(u / w - columns.mean()) < 6 and abs(v / w - rows.mean()) < 6
