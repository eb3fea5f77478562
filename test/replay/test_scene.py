# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What drives an imagined video, and the recorded frames that it is compared with."""
from dataclasses import replace

import numpy as np
import pytest

from cosmos3_ros.droid.recipe import STEP
from cosmos3_ros.replay.bag import Bag, BagError
from cosmos3_ros.replay.motion import Motion
from cosmos3_ros.replay.scene import driven, prompted
from cosmos3_ros.replay.setup import Setup
from cosmos3_ros.sensing.images import to_rgb
from cosmos3_ros.tasks.dynamics import DynamicsRecipe
from cosmos3_ros.tasks.rollout import RolloutRecipe

WRIST = '/wrist/image_raw/compressed'


@pytest.fixture
def bag():
    with Bag('sample') as opened:
        yield opened


def test_row_of_a_frame_is_what_was_commanded_a_frame_earlier(bag):
    scene = driven(bag, Setup(), 'wrist', 37, DynamicsRecipe(), '', 0)
    first, second = scene.segments
    assert first.shape == (33, 8) and second.shape == (5, 8)
    times = scene.stamps[0] + np.round(np.arange(36) * STEP * 1e9).astype(np.int64)
    recorded = Motion(bag, Setup()).at(times)
    recorded[:, 7] = 1 - recorded[:, 7]         # the network counts the other way
    assert np.allclose(first[0], recorded[0], atol=1e-6)        # the state
    assert np.allclose(first[1:], recorded[:32], atol=1e-6)
    assert np.allclose(second[0], recorded[32], atol=1e-6)      # at the last frame of the first
    assert np.allclose(second[1:], recorded[32:], atol=1e-6)


def test_commands_lead_and_the_state_starts(bag):
    class Commands(Bag):
        """The sample with its joints once more, as commands half a rad further."""

        def messages(self, topics):
            for topic, time, message in super().messages(
                    {'/joint_states' if topic == '/commands' else topic for topic in topics}):
                if '/commands' in topics and topic == '/joint_states':
                    message = replace(message, position=message.position + 0.5)
                yield topic, time, message

    with Commands('sample') as opened:
        opened.topics['/commands'] = opened.topics['/joint_states']
        led = driven(opened, Setup(reference_topic='commands'), 'wrist', 9, DynamicsRecipe(), '', 0)
    plain = driven(bag, Setup(), 'wrist', 9, DynamicsRecipe(), '', 0)
    shift = led.segments[0] - plain.segments[0]
    assert np.allclose(shift[0], 0) and np.allclose(shift[1:, :7], 0.5, atol=1e-6)


def test_recorded_frames_are_the_pictures_of_their_moments(bag):
    scene = driven(bag, Setup(), 'wrist', 9, DynamicsRecipe(), '', 0)
    pictures = [to_rgb(message) for _, _, message in bag.messages([WRIST])]     # at 15 Hz
    for frame, picture in zip(scene.recorded, pictures):
        assert np.array_equal(frame, picture[:176])     # whole latents of 16 pixels
    composed = driven(bag, Setup(), 'composed', 9, DynamicsRecipe(), 'Lift', 0)
    assert composed.recorded[0].shape == (528, 640, 3) and 'Lift.' in composed.prompt


def test_prompted_video_has_the_rate_and_size_of_the_camera(bag):
    scene = prompted(bag, Setup(), 'wrist', 9, RolloutRecipe(), 'Lift', 0)
    assert (scene.recipe.width, scene.recipe.height) == (320, 176)
    assert scene.recipe.fps == pytest.approx(15.0) and scene.segments == [9]


@pytest.mark.parametrize('make, recipe', [(driven, DynamicsRecipe()), (prompted, RolloutRecipe())])
def test_too_short_a_recording_is_refused(bag, make, recipe):
    with pytest.raises(BagError, match='fewer'):
        make(bag, Setup(), 'wrist', 401, recipe, '', 0)
