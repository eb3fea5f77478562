# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Goals that do not fit are refused with the reason, and leave nothing behind."""
import time

from action_msgs.msg import GoalStatus
from cosmos3_ros.action import Imagine
from cosmos3_ros.msg import ActionChunk
import pytest
from sensor_msgs.msg import CompressedImage

Outcome = Imagine.Result


def refused(world, **fields):
    """The reason why a goal is refused."""
    status, result = world.run(**fields)
    assert status == GoalStatus.STATUS_ABORTED and result.outcome == Outcome.REFUSED
    assert result.session == fields.get('session', '') and result.frames == 0
    return result.message


def chunk(width=8, horizon=32, value=0.1):
    return ActionChunk(names=[f'joint{i}' for i in range(width)], horizon=horizon,
                       positions=[value] * (width * horizon))


def test_values_that_do_not_fit_are_named(world):
    assert 'width is 65, wanted a multiple of 16' in refused(world, width=65)
    assert "mode is 'dream', wanted kv, chained or clip" in refused(world, mode='dream')
    assert 'overlap is 8, wanted 1 to 7' in refused(world, mode='chained', overlap=8)
    assert 'fps is 100.0' in refused(world, fps=100.0)
    assert 'frames is 30, wanted 4 n + 1' in refused(world, frames=30)
    assert 'mode clip makes all frames at once' in refused(world, mode='clip', frames=0)
    assert "'gone' is not open; open sessions: none" in refused(world, session='gone')
    assert 'guidance is nan, wanted 0 to 100' in refused(world, guidance=float('nan'))
    assert 'shift is -5.0, wanted 0.1 to 100' in refused(world, shift=-5.0)
    assert world.run(frames=5)[1].outcome == Outcome.SUCCEEDED


def test_goals_that_would_hold_up_the_engine(world):
    assert 'steps is 1001, wanted 1 to 1000' in refused(world, steps=1001)
    assert 'window is 60000 latents of 32x32' in refused(world, mode='chained', window=60000)
    assert 'window is 50001 latents of 32x32' in refused(world, mode='clip', frames=200001)
    assert 'wanted at most 4096 tokens' in refused(world, prompt='word ' * 5000)
    assert 'negative_prompt has' in refused(world, negative_prompt='word ' * 5000)
    session = world.run(frames=5)[1].session
    assert 'wanted at most 4096 tokens' in refused(
        world, prompt='word ' * 5000, session=session, frames=4)


def test_goal_that_goes_on_is_refused_and_its_session_stays(world):
    session = world.run(frames=5)[1].session
    assert 'frames is 5, wanted 4 n + 1 in a new session and 4 n' in refused(
        world, frames=5, session=session)
    assert 'opened without actions' in refused(world, session=session, actions=[chunk()])
    clip = world.run(frames=5, mode='clip')[1].session
    assert 'in a new session' in refused(world, frames=4, session=clip)
    assert world.run(frames=4, session=session)[1].outcome == Outcome.SUCCEEDED


def test_cameras_that_give_no_picture_are_named(setup, start, reader):
    start(max_camera_age=0.5)
    reader.meet()
    assert "camera 'nose' is unknown: wanted one of wrist, exterior_left, exterior_right" in (
        refused(reader, camera='nose'))
    reader.see()
    setup.cell.frozen.add('wrist')
    time.sleep(0.6)
    message = refused(reader, camera='wrist')
    assert 'camera wrist: the newest is' in message and 'on /wrist/image_raw' in message


def test_camera_without_a_picture_yet(setup, start, reader):
    setup.cell.frozen.update(setup.cell.cameras)
    start()
    reader.meet()
    assert 'camera wrist: no picture yet on /wrist/image_raw' in refused(reader, camera='wrist')
    # a video that actions drive starts from all three
    assert 'no picture yet' in refused(reader, actions=[chunk()])


@pytest.mark.parametrize('data', [b'no picture', b'\xff\xd8\xff\xe0' * 9])
def test_picture_that_cannot_be_read(world, data):
    message = refused(world, picture=CompressedImage(format='jpeg', data=data))
    assert f'{len(data)} bytes' in message and 'is not a JPEG' in message


def test_chunks_that_do_not_fit(world):
    world.see()
    assert 'found shape [32, 7], wanted [h, 8]' in refused(world, actions=[chunk(7)])
    uneven = chunk()
    uneven.positions = [0.0] * 100
    assert '100 positions for horizon 32 and 8 names, wanted 256' in refused(
        world, actions=[uneven])
    # the second is looked at before any work is done for the first
    assert 'wanted [h, 8]' in refused(world, actions=[chunk(), chunk(9)])
    assert '4 n + 1 frames' in refused(world, camera='wrist', actions=[chunk(horizon=31)])
    assert 'finite' in refused(world, camera='wrist', actions=[chunk(value=float('nan'))])


def test_driven_goals_that_do_not_fit(world):
    world.see()
    driven = {'camera': 'wrist', 'actions': [chunk(horizon=8), chunk(horizon=4)], 'frames': 0}
    assert 'fps is -15.0, wanted 1 to 60' in refused(world, **(driven | {'fps': -15.0}))
    assert 'shift is nan' in refused(world, **(driven | {'shift': float('nan')}))
    assert 'steps is 1001' in refused(world, **(driven | {'steps': 1001}))
    assert 'wanted at most 4096 tokens' in refused(world, **driven, prompt='word ' * 5000)
    long = [chunk(horizon=4), chunk(horizon=4096)]      # seen before the first is made
    assert 'window is 1025 latents' in refused(world, **(driven | {'actions': long}))
    for frames in (5, 12, 61):
        assert f'frames is {frames}, wanted a number at which a chunk ends (the first at 9, the ' \
            'last at 13), or 0' in refused(world, **(driven | {'frames': frames}))
