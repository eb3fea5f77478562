# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a goal asks for, in the terms of the tasks."""
from cosmos3_ros.action import Imagine
from cosmos3_ros.msg import ActionChunk
import numpy as np
import pytest

from cosmos3_ros.ros.world_model import goals
from cosmos3_ros.tasks.rollout import RolloutRecipe

UNSET = {'overlap': -1, 'history': -1, 'anchor': -1}


def chunk(*rows):
    return ActionChunk(names=list('abcdefgh'), horizon=len(rows),
                       positions=[float(value) for row in rows for value in row])


def test_goal_that_asks_for_nothing_takes_the_recipe():
    assert goals.recipe(Imagine.Goal(frames=61, **UNSET)) == RolloutRecipe()


def test_what_a_goal_asks_for_wins():
    asked = {'mode': 'chained', 'width': 320, 'height': 192, 'fps': 12.0, 'window': 6,
             'overlap': 1, 'history': 0, 'anchor': 0, 'steps': 7, 'guidance': 1.5, 'shift': 5.0}
    assert goals.recipe(Imagine.Goal(**asked)) == RolloutRecipe(**asked)


def test_one_picture_is_square_and_a_clip():
    recipe = goals.recipe(Imagine.Goal(frames=1, **UNSET))
    assert (recipe.mode, recipe.width, recipe.height) == ('clip', 640, 640)
    wide = goals.recipe(Imagine.Goal(frames=1, width=832, height=480, **UNSET))
    assert (wide.width, wide.height) == (832, 480)


def test_window_of_a_clip_is_the_whole_of_it():
    assert goals.recipe(Imagine.Goal(mode='clip', frames=121, **UNSET)).window == 31
    assert goals.recipe(Imagine.Goal(frames=1, **UNSET)).window == 1
    with pytest.raises(ValueError, match='window is 65 latents of 832x480, wanted at most 64'):
        goals.recipe(Imagine.Goal(mode='clip', frames=257, **UNSET))


def test_rows_of_a_chunk_start_where_the_one_before_ended():
    first = [[0.1 * i] * 7 + [0.0] for i in range(4)]
    second = [[0.9] * 7 + [1.0]] * 4
    chunks = [chunk(*first), chunk(*second)]
    given, rows = zip(*goals.chunk_rows(chunks))
    assert list(given) == chunks
    assert [each.shape for each in rows] == [(5, 8), (5, 8)]
    assert rows[0].dtype == np.float32
    # the first begins at its own first row: the command at the observation itself
    np.testing.assert_allclose(rows[0][:, 0], [0.0, 0.0, 0.1, 0.2, 0.3], atol=1e-6)
    np.testing.assert_allclose(rows[1][:, 0], [0.3, 0.9, 0.9, 0.9, 0.9], atol=1e-6)
    # the network's gripper is 1 open to 0 closed
    np.testing.assert_allclose(rows[1][:, 7], [1, 0, 0, 0, 0], atol=1e-6)


@pytest.mark.parametrize('names, horizon, count, said', [
    ('abcdefgh', 4, 31, '31 positions for horizon 4 and 8 names, wanted 32'),
    ('', 4, 0, '0 positions for horizon 4 and 0 names'),
    ('abcdefg', 4, 28, 'found shape [4, 7], wanted [h, 8]'),
    ('abcdefgh', 0, 0, 'found shape [0, 8], wanted [h, 8]'),
])
def test_chunk_that_does_not_fit_says_what_was_found(names, horizon, count, said):
    message = ActionChunk(names=list(names), horizon=horizon, positions=[0.0] * count)
    with pytest.raises(ValueError) as error:
        list(goals.chunk_rows([message]))
    assert said in str(error.value)
