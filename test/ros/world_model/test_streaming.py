# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Frames of an Imagine goal, as a reader sees them."""
import time

from action_msgs.msg import GoalStatus
from cosmos3_ros.action import Imagine
import numpy as np
import pytest
from sensor_msgs.msg import CompressedImage, Image

from waiting import wait_for

Outcome = Imagine.Result


def nanoseconds(stamp):
    return stamp.sec * 10**9 + stamp.nanosec


def test_frames_come_in_order_and_complete_the_first_before_the_second_window(world, pace):
    pace.allowed = 1
    goal = world.send(frames=61, seed=5)
    wait_for(lambda: len(world.images) == 29 and len(world.frames) == 29)
    assert not goal.done                        # the second window has not been denoised
    pace.allowed = 2
    status, result = goal.ended()
    assert status == GoalStatus.STATUS_SUCCEEDED and result.outcome == Outcome.SUCCEEDED
    assert (result.frames, result.windows, result.seed) == (61, 2, 5)
    assert 0 < result.time_to_first_frame and result.frames_per_second > 0
    assert world.video(result.session, 61).shape == (61, 32, 32, 3)
    assert [frame.window for frame in world.frames] == [0] * 29 + [1] * 32
    assert [frame.latent for frame in world.frames] == [0] + [1 + i // 4 for i in range(60)]


def test_feedback_counts_frames_and_windows(world):
    goal = world.send(frames=61)
    result = goal.ended()[1]
    wait_for(lambda: goal.feedback and goal.feedback[-1].frames == 61)
    assert [message.frames for message in goal.feedback] == [1 + 4 * i for i in range(16)]
    assert goal.feedback[-1].windows == 2
    assert goal.feedback[-1].time_to_first_frame == result.time_to_first_frame
    assert goal.feedback[-1].frames_per_second > 0
    assert {message.session for message in goal.feedback} == {result.session}


def test_stamps_are_predicted_times_and_the_frame_says_imagined(setup, start, reader):
    setup.cell.frozen.add('wrist')
    time.sleep(0.2)                             # what was under way has come
    start()
    reader.meet()
    camera = setup.cell.cameras['wrist']
    picture = Image(height=48, width=64, encoding='rgb8', step=192, data=bytes(48 * 192))
    picture.header.stamp = setup.cell.node.get_clock().now().to_msg()
    picture.header.frame_id = 'wrist_optical_frame'

    def started():
        camera.publish(picture)
        return reader.run(frames=5, camera='wrist', fps=16.0)[1].outcome == Outcome.SUCCEEDED

    wait_for(started)                           # once the picture has come
    wait_for(lambda: len(reader.frames) == 5)
    taken = nanoseconds(picture.header.stamp)
    assert [nanoseconds(frame.header.stamp) - taken for frame in reader.frames] == [
        i * 62_500_000 for i in range(5)]
    last = reader.frames[-1]
    assert last.header.frame_id == f'imagined/{last.session}/wrist_optical_frame'
    assert last.input_names == ['wrist']
    assert nanoseconds(last.input_stamps[0]) == taken


def test_compressed_frames_show_the_same_pictures(setup, world):
    from cosmos3_ros.sensing.images import to_rgb
    jpegs = []
    topic = setup.cell.node.create_subscription(
        CompressedImage, 'world_model/image/compressed', jpegs.append, 64)
    wait_for(topic.get_publisher_count)
    session = world.run(frames=5)[1].session
    raw = world.video(session, 5)
    wait_for(lambda: len(jpegs) == 5)
    assert [jpeg.header for jpeg in jpegs] == [frame.header for frame in world.frames]
    for jpeg, picture in zip(jpegs, raw):
        assert to_rgb(jpeg).shape == picture.shape
        assert np.abs(to_rgb(jpeg).mean() - picture.mean()) < 8


def test_picture_in_the_goal_is_frame_0(world, model):
    from std_msgs.msg import Header

    from cosmos3_ros.ros.images import compress
    pictures = [np.full((64, 64, 3), value, np.uint8) for value in (20, 230)]
    videos = [world.video(world.run(frames=5, seed=1, picture=compress(
        picture, Header(), 'png'))[1].session, 5) for picture in pictures]
    assert np.abs(videos[0][0].astype(int) - videos[1][0]).mean() > 1
    first = world.frames[0]
    assert first.header.frame_id == f'imagined/{first.session}'
    assert first.input_names == ['picture']


def test_one_picture_from_text(world):
    result = world.run(frames=1, steps=1)[1]
    assert result.outcome == Outcome.SUCCEEDED and result.frames == 1
    assert world.video(result.session, 1).shape == (1, 32, 32, 3)
    assert world.frames[0].input_names == []


@pytest.mark.parametrize('mode, more', [('kv', 32), ('chained', 24)])
def test_session_that_goes_on_equals_one_goal(world, mode, more):
    whole = world.run(frames=29 + more, seed=3, mode=mode, guidance=3.0)[1].session
    parts = world.run(frames=29, seed=3, mode=mode, guidance=3.0)[1].session
    assert world.run(frames=more, session=parts)[1].outcome == Outcome.SUCCEEDED
    np.testing.assert_array_equal(world.video(parts, 29 + more), world.video(whole, 29 + more))


def test_two_goals_at_a_time_on_two_sessions(world, pace):
    pace.allowed = 0
    goals = [world.send(frames=29, seed=seed) for seed in (1, 2)]
    wait_for(lambda: pace.windows == 2)         # both have begun, neither has a frame
    pace.allowed = 2
    results = [goal.ended()[1] for goal in goals]
    assert [result.outcome for result in results] == [Outcome.SUCCEEDED] * 2
    videos = [world.video(result.session, 29) for result in results]
    pace.allowed = 1000
    assert world.close_session(results[1].session).success
    alone = world.run(frames=29, seed=1)[1]
    np.testing.assert_array_equal(videos[0], world.video(alone.session, 29))
    assert (videos[0] != videos[1]).any()


def test_diagnostics_say_what_is_going_on(setup, world, pace):
    wait_for(lambda: setup.cell.status('imagination')[1] == 'ready: fake')
    pace.allowed = 1
    goal = world.send(frames=0)
    wait_for(lambda: setup.cell.status('imagination')[2].get('goals') == '1')
    session = world.frames[0].session
    goal.cancel()
    goal.ended()
    wait_for(lambda: setup.cell.status('imagination')[2].get('goals') == '0')
    values = setup.cell.status('imagination')[2]
    assert values['sessions'] == session and values['frames published'] == '29'
