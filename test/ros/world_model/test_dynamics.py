# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Videos that actions drive: chunks of the goal, and the policy's own as they come."""
from functools import partial

from cosmos3_ros.action import Imagine
from cosmos3_ros.msg import ActionChunk
import numpy as np
import pytest

from cosmos3_ros.model.vae import StreamingDecoder
from waiting import wait_for

Outcome = Imagine.Result
SMALL = {'steps': 1, 'width': 0, 'height': 0, 'frames': 0}


def chunk(value, horizon=32, stamp=0):
    message = ActionChunk(names=[f'joint{i}' for i in range(8)], horizon=horizon,
                          positions=[value] * (8 * horizon))
    message.header.stamp.sec = stamp
    return message


class Latents:
    """Lets a number of latents be decoded; the next one waits, at a yield."""

    def __init__(self, decoding):
        self._decoding = decoding
        self.begun, self.allowed = 0, 1000

    def __get__(self, decoder, _):
        return partial(self._run, decoder)

    def _run(self, decoder, latent):
        self.begun += 1
        number = self.begun
        while number > self.allowed:
            yield
        return (yield from self._decoding(decoder, latent))


@pytest.fixture
def world(start, reader, monkeypatch):
    """A reader that has met a node with the smallest canvases that sees all three cameras."""
    from cosmos3_ros.ros.world_model import videos
    monkeypatch.setattr(videos, 'DynamicsRecipe', partial(videos.DynamicsRecipe, tier=256))
    start(max_camera_age=10.0)          # a frozen camera's picture, on a slow machine
    reader.meet()
    reader.see()
    return reader


def test_actions_of_the_goal_drive_the_video_chunk_after_chunk(world):
    chunks = [chunk(0.1, stamp=7), chunk(0.2, horizon=8, stamp=9)]
    result = world.run(camera='wrist', actions=chunks, seed=1, **SMALL)[1]
    assert (result.outcome, result.frames, result.windows) == (Outcome.SUCCEEDED, 41, 2)
    video = world.video(result.session, 41)
    stamps = [frame.header.stamp.sec + frame.header.stamp.nanosec * 1e-9
              for frame in world.frames]
    np.testing.assert_allclose(np.diff(stamps), 1 / 15, atol=1e-6)
    assert {tuple(frame.input_names) for frame in world.frames} == {('wrist', 'action_chunk')}
    assert [frame.input_stamps[1].sec for frame in world.frames] == [7] * 33 + [9] * 8

    more = world.run(session=result.session, actions=[chunk(0.3)], **SMALL)[1]
    assert (more.frames, more.windows) == (32, 3)
    assert world.video(result.session, 73).shape == (73, *video.shape[1:])


@pytest.mark.parametrize('chunks, decoded, frames', [(1, 3, 9), (2, 5, 13)])
def test_chunk_that_is_cancelled_while_it_is_decoded_ends_at_its_last_frame(
        world, monkeypatch, chunks, decoded, frames):
    latents = Latents(StreamingDecoder.decoding)
    monkeypatch.setattr(StreamingDecoder, 'decoding', latents)
    latents.allowed = decoded                   # the first chunk of two has two
    goal = world.send(camera='wrist', actions=[chunk(0.1, 4), chunk(0.2, 32)][-chunks:], **SMALL)
    wait_for(lambda: len(world.frames) == frames)
    goal.cancel()
    result = goal.ended()[1]
    assert (result.outcome, result.frames, result.windows) == (Outcome.CANCELLED, frames, chunks)
    latents.allowed = 1000
    more = world.run(session=result.session, actions=[chunk(-1.0, 8)], **SMALL)[1]
    assert (more.outcome, more.frames, more.windows) == (Outcome.SUCCEEDED, 8, chunks + 1)
    assert world.video(result.session, frames + 8) is not None
    assert len(world.frames) == frames + 8


def test_frames_of_a_goal_are_those_of_its_chunks(world):
    chunks = [chunk(0.1, horizon=4), chunk(0.2, horizon=8)]
    first = world.run(camera='wrist', actions=chunks, **(SMALL | {'frames': 5}))[1]
    assert (first.outcome, first.frames) == (Outcome.SUCCEEDED, 5)
    more = world.run(session=first.session, actions=chunks, **(SMALL | {'frames': 12}))[1]
    assert (more.outcome, more.frames) == (Outcome.SUCCEEDED, 12)
    refused = world.run(session=first.session, actions=chunks, **(SMALL | {'frames': 5}))[1]
    assert refused.outcome == Outcome.REFUSED and 'the first at 4' in refused.message


def test_other_actions_lead_to_another_video_of_the_same_picture(setup, world):
    setup.cell.frozen.add('wrist')              # so that both videos have the same stamps
    videos = []
    for value in (0.1, 1.5):
        result = world.run(camera='wrist', actions=[chunk(value, horizon=4)], seed=1, **SMALL)[1]
        videos.append(world.video(result.session, 5))
    assert (videos[0] != videos[1]).any()
    assert (videos[0][0] == videos[1][0]).all()         # the observed frame


def test_without_a_camera_it_starts_from_the_view_of_the_policy(world):
    result = world.run(actions=[chunk(0.1, horizon=4)], **SMALL)[1]
    height, width = world.video(result.session, 5).shape[1:3]
    assert width > height       # 640 x 540, composed of three
    assert world.frames[0].input_names == ['composed', 'action_chunk']


def test_video_follows_the_chunks_of_the_policy(setup, world):
    chunks = setup.cell.node.create_publisher(ActionChunk, 'policy/action_chunk', 1)
    wait_for(lambda: chunks.get_subscription_count() >= 2)      # the cell listens too
    goal = world.send(camera='wrist', follow_policy=True, **SMALL)
    sent = 0

    def stream(until):
        nonlocal sent
        if len(world.frames) >= until:
            return True
        sent += 1
        chunks.publish(chunk(0.01 * sent, horizon=4, stamp=sent))
        return False

    wait_for(lambda: stream(13), 30)
    goal.cancel()
    result = goal.ended()[1]
    assert result.outcome == Outcome.CANCELLED and result.frames >= 13
    assert world.video(result.session, 13) is not None
    followed = [frame.input_stamps[1].sec for frame in world.frames]
    assert followed == sorted(followed) and followed[0] >= 1    # the newest each time


def test_following_ends_with_the_frames_that_were_asked_for(setup, world):
    chunks = setup.cell.node.create_publisher(ActionChunk, 'policy/action_chunk', 1)
    wait_for(lambda: chunks.get_subscription_count() >= 2)
    goal = world.send(camera='wrist', follow_policy=True, **(SMALL | {'frames': 9}))
    wait_for(lambda: chunks.publish(chunk(0.1, horizon=4)) or goal.done, 30)
    assert goal.ended()[1].outcome == Outcome.SUCCEEDED and goal.ended()[1].frames == 9


def test_cancel_while_waiting_for_a_chunk_ends_the_goal(world):
    goal = world.send(camera='wrist', follow_policy=True, **SMALL)
    wait_for(lambda: goal.handle.status == 2)           # executing
    goal.cancel()
    assert goal.ended()[1].outcome == Outcome.CANCELLED


def test_policy_that_is_silent_fails_the_goal(world, monkeypatch):
    from cosmos3_ros.ros.world_model import chunks
    monkeypatch.setattr(chunks, 'TIMEOUT', 0.3)
    result = world.run(camera='wrist', follow_policy=True, **SMALL)[1]
    assert result.outcome == Outcome.FAILED and result.session == ''
    assert 'no chunk on policy/action_chunk' in result.message


def test_driven_session_is_not_steered(world):
    session = world.run(camera='wrist', actions=[chunk(0.1, horizon=4)], **SMALL)[1].session
    answer = world.steer(session, 'go left')
    assert not answer.success and 'driven by actions' in answer.message
    result = world.run(session=session, frames=4)[1]
    assert result.outcome == Outcome.REFUSED and 'opened with actions' in result.message
