# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""When the newest messages make an observation, and what is said when they do not."""
from types import SimpleNamespace

import numpy as np
import pytest

from cosmos3_ros.sensing.streams import JointStream, Limits, Refusal, Streams

ARM = tuple('abcdefg')
NAMES = (*ARM, 'hand')
CAMERAS = ('wrist', 'left', 'right')
MS = 1_000_000
START = 1_000_000 * MS


def stamp(at):
    return SimpleNamespace(sec=at // 10**9, nanosec=at % 10**9)


def picture(at):
    return SimpleNamespace(header=SimpleNamespace(stamp=stamp(at)))


def joint_state(at, names=NAMES, positions=None, velocities=()):
    positions = [NAMES.index(name) + 0.5 for name in names] if positions is None else positions
    return SimpleNamespace(header=SimpleNamespace(stamp=stamp(at)), name=list(names),
                           position=positions, velocity=list(velocities))


def make_streams():
    return Streams({name: f'/{name}/image_raw' for name in CAMERAS},
                   JointStream('/joint_states', ARM, 'hand'),
                   Limits(camera_age=200 * MS, joint_age=100 * MS, skew=50 * MS))


def filled(streams=None, at=START, without=()):
    streams = streams or make_streams()
    for name in {*CAMERAS} - {*without}:
        streams.put(streams.cameras[name], picture(at), at)
    if 'joints' not in without:
        streams.put(streams.joints, joint_state(at), at)
    return streams


def refusal(streams, now=START):
    found = streams.snapshot(now)
    assert isinstance(found, Refusal)
    return found


def test_complete_streams_make_an_observation_with_their_stamps():
    found = filled().snapshot(START + 10 * MS)
    assert found.stamp == START
    assert found.reading.joints.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert found.reading.gripper == 7.5


@pytest.mark.parametrize('name', CAMERAS)
def test_missing_camera_is_named_with_its_topic(name):
    found = refusal(filled(without=[name]))
    assert found.code == 'missing' and found.stream == name
    assert f'/{name}/image_raw' in found.text


@pytest.mark.parametrize('name', CAMERAS)
def test_frozen_camera_is_named_with_its_age(name):
    streams = filled()
    filled(streams, START + 300 * MS, without=[name])
    found = refusal(streams, START + 310 * MS)
    assert (found.code, found.stream) == ('age', name)
    assert '310 ms' in found.text and '200 ms' in found.text


def test_messages_that_keep_coming_with_one_stamp_are_old():
    streams = filled()
    for _ in range(5):
        filled(streams, START)
    assert refusal(streams, START + 250 * MS).code == 'age'


def test_dead_joint_states_are_named():
    streams = filled()
    filled(streams, START + 150 * MS, without=['joints'])
    found = refusal(streams, START + 150 * MS)
    assert (found.code, found.stream) == ('age', 'joint_states')


def test_stamps_from_the_future_are_refused():
    found = refusal(filled(at=START + 500 * MS), START)
    assert found.code == 'future' and '500 ms' in found.text


def test_cameras_far_apart_are_refused_with_the_measured_skew():
    streams = filled(at=START)
    filled(streams, START + 70 * MS, without=['left'])
    found = refusal(streams, START + 70 * MS)
    assert (found.code, found.stream) == ('skew', 'left')
    assert '70 ms' in found.text


def test_zero_stamp_counts_from_receipt():
    streams = filled()
    streams.put(streams.cameras['wrist'], picture(0), START + 20 * MS)
    assert streams.snapshot(START + 30 * MS).stamp == START + 20 * MS
    assert streams.cameras['wrist'].unstamped
    assert refusal(streams, START + 215 * MS).stream == 'left'


def test_shuffled_joint_names_give_the_same_row():
    streams = filled()
    streams.put(streams.joints, joint_state(START, ('hand', *reversed(ARM))), START)
    found = streams.snapshot(START).reading
    assert found.joints.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5] and found.gripper == 7.5


@pytest.mark.parametrize('absent', ['c', 'hand'])
def test_missing_joint_is_named_with_its_topic_and_never_invented(absent):
    streams = filled(without=['joints'])
    names = [name for name in NAMES if name != absent]
    streams.put(streams.joints, joint_state(START, names), START)
    found = refusal(streams)
    assert found.code == 'missing'
    assert f'joint {absent} is not on /joint_states' in found.text


def test_names_without_positions_are_no_joint_state():
    streams = filled(without=['joints'])
    streams.put(streams.joints, joint_state(START, positions=[]), START)
    assert refusal(streams).code == 'missing'


def test_arm_and_gripper_may_come_in_different_messages():
    streams = filled(without=['joints'])
    streams.put(streams.joints, joint_state(START, ARM), START)
    streams.put(streams.joints, joint_state(START + MS, ('hand',)), START + MS)
    found = streams.snapshot(START + MS).reading
    assert found.joints[6] == 6.5 and found.gripper == 7.5


@pytest.mark.parametrize('bad', [float('nan'), float('inf')])
def test_joint_that_is_not_finite_is_named(bad):
    streams = filled(without=['joints'])
    positions = [0.0] * 8
    positions[2] = bad
    streams.put(streams.joints, joint_state(START, positions=positions), START)
    found = refusal(streams)
    assert found.code == 'not_finite' and 'joint c' in found.text


def test_state_is_the_one_nearest_to_the_wrist_picture():
    streams = filled(without=['joints'])
    for offset in (-40, -9, 12, 60):
        positions = [float(offset)] * 8
        streams.put(streams.joints, joint_state(START + offset * MS, positions=positions),
                    START + offset * MS)
    now = START + 60 * MS
    assert streams.snapshot(now).reading.gripper == -9.0
    assert streams.present(now).gripper == 60.0


def test_picture_without_a_joint_state_near_it_is_refused():
    streams = filled(without=['joints'])
    streams.put(streams.joints, joint_state(START + 120 * MS), START + 120 * MS)
    assert refusal(streams, START + 120 * MS).code == 'skew'


def test_velocities_are_those_of_the_joints_and_zero_where_there_are_none():
    streams = filled(without=['joints'])
    streams.put(streams.joints, joint_state(START, velocities=np.arange(8.0)), START)
    assert streams.present(START).velocities.tolist() == [0, 1, 2, 3, 4, 5, 6]
    streams.put(streams.joints, joint_state(START + MS), START + MS)
    assert streams.present(START + MS).velocities.tolist() == [0] * 7


def test_lost_frames_are_counted_by_their_stamps():
    streams = make_streams()
    wrist = streams.cameras['wrist']
    sent = [index for index in range(40) if index not in (20, 21, 30)]
    for index in sent:
        streams.put(wrist, picture(START + index * 66 * MS), START)
    lost, total = wrist.losses
    assert lost == 3 and total == 39    # the first frame has no frame before it


def test_velocity_that_is_not_finite_counts_as_unknown():
    streams = filled(without=['joints'])
    velocities = [0.1, float('nan'), 0.3, float('inf'), 0.5, 0.6, 0.7, float('nan')]
    streams.put(streams.joints, joint_state(START, velocities=velocities), START)
    assert streams.present(START).velocities.tolist() == [0.1, 0, 0.3, 0, 0.5, 0.6, 0.7]


def test_pause_of_a_camera_is_no_loss():
    streams = make_streams()
    stream = streams.cameras['wrist']
    for at in [*range(0, 600, 100), *range(60_000, 60_600, 100)]:
        streams.put(stream, picture(START + at * MS), START)
    assert stream.losses[0] == 0


def test_joint_states_are_kept_for_a_second_even_after_one_from_the_future():
    streams = filled(without=['joints'])
    streams.put(streams.joints, joint_state(START + 3_600_000 * MS), START)
    for at in range(0, 5000, 100):
        streams.put(streams.joints, joint_state(START + at * MS), START + at * MS)
    assert len(streams.joints._histories[0]) == 11
    assert streams.joints.nearest(START).stamp == START + 3900 * MS


def test_publisher_that_is_heard_ends_what_was_wrong_with_another():
    streams = filled()
    streams.joints.incompatible = 'nobody is heard'
    filled(streams, START + 10 * MS)
    assert streams.joints.incompatible == ''


def test_nothing_is_left_after_a_clear():
    streams = filled()
    streams.clear()
    assert refusal(streams).code == 'missing'
