# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The composed picture against reference values and against plain arithmetic."""
import hashlib
import json
from math import ceil
from pathlib import Path

import numpy as np
from PIL import Image
import pytest

from cosmos3_ros.droid.compose import compose, letterbox
from cosmos3_ros.droid.observation import CAMERAS, ObservationError

DATA = Path(__file__).parents[1] / 'data' / 'droid'


def picture(seed, height, width):
    blocks = np.random.RandomState(seed).randint(0, 256, (ceil(height / 5), ceil(width / 5), 3))
    return blocks.astype(np.uint8).repeat(5, 0).repeat(5, 1)[:height, :width]


def reference_set(name):
    entry = json.loads((DATA / 'compose.json').read_text())[name]
    seeds, sizes = entry['seeds_wrist_left_right'], entry['sizes_wrist_left_right']
    return entry, {name: picture(seed, *size) for name, seed, size in zip(CAMERAS, seeds, sizes)}


def plain(values=(10, 20, 30), size=(360, 640)):
    return {name: np.full((*size, 3), value, np.uint8) for name, value in zip(CAMERAS, values)}


def test_cameras_of_the_trained_size_give_the_reference_picture():
    entry, pictures = reference_set('b_360x640')
    composed = compose(pictures)
    assert composed.shape == (540, 640, 3) and composed.dtype == np.uint8
    assert hashlib.sha256(composed.tobytes()).hexdigest() == entry['client_sha256']


def test_other_cameras_are_letterboxed_to_within_a_level():
    _, pictures = reference_set('a_480x640')
    rows = np.load(DATA / 'compose_rows.npz')['rows']
    difference = compose(pictures)[::12].astype(int) - rows
    assert np.abs(difference).max() <= 1


def test_cameras_stand_where_the_policy_expects_them():
    composed = compose(plain())
    assert (composed[:360] == 10).all()
    assert (composed[360:, :320] == 20).all()
    assert (composed[360:, 320:] == 30).all()


def test_swapped_exteriors_swap_the_halves_below():
    pictures = plain()
    pictures['exterior_left'], pictures['exterior_right'] = (
        pictures['exterior_right'], pictures['exterior_left'])
    composed = compose(pictures)
    assert (composed[360:, :320] == 30).all() and (composed[360:, 320:] == 20).all()


def test_halving_averages_four_pixels_and_cuts_the_fraction():
    pictures = plain()
    left = np.zeros((360, 640, 3), np.uint8)
    left[0, 0], left[0, 1], left[1, 0], left[1, 1] = 255, 255, 255, 254  # mean 254.75
    left[2, 2] = 3                                                       # mean 0.75
    pictures['exterior_left'] = left
    composed = compose(pictures)
    assert composed[360, 0].tolist() == [254] * 3
    assert composed[361, 1].tolist() == [0] * 3


@pytest.mark.parametrize('size, bars', [
    ((480, 640), (slice(None), slice(80, 560))),      # 480 wide between bars of 80
    ((720, 1280), (slice(None), slice(None))),        # the same aspect: no bars
    ((90, 160), (slice(None), slice(None))),          # enlarged
    ((300, 640), (slice(30, 330), slice(None))),      # bars above and below
    ((333, 500), (slice(None), slice(50, 590))),      # 540.54 wide is floored to 540
    ((361, 640), (slice(None), slice(1, 639))),       # 638.2 wide is floored to 638
])
def test_letterbox_keeps_the_aspect_between_centred_black_bars(size, bars):
    framed = letterbox(np.full((*size, 3), 200, np.uint8))
    expected = np.zeros((360, 640, 3), np.uint8)
    expected[bars] = 200
    assert np.array_equal(framed, expected)


def test_letterbox_filters_as_pillow_does_when_shrinking():
    source = picture(3, 720, 960)
    expected = np.asarray(Image.fromarray(source).resize((480, 360), Image.BILINEAR))
    assert np.array_equal(letterbox(source)[:, 80:560], expected)


def test_a_missing_camera_is_named_with_those_expected():
    pictures = plain()
    del pictures['exterior_right']
    with pytest.raises(ObservationError, match='no picture of exterior_right.*wrist, exterior_l'):
        compose(pictures)


def test_a_misspelt_camera_is_named():
    pictures = plain()
    pictures['wirst'] = pictures.pop('wrist')
    with pytest.raises(ObservationError, match='no picture of wrist, unknown wirst'):
        compose(pictures)


@pytest.mark.parametrize('bad', [
    np.zeros((360, 640, 3), np.float32), np.zeros((360, 640), np.uint8),
    np.zeros((360, 640, 4), np.uint8), np.zeros((0, 640, 3), np.uint8),
    np.zeros((3, 360, 640), np.uint8), np.zeros((360, 640, 3), np.uint16),
])
def test_a_picture_of_another_kind_names_its_camera_and_what_was_found(bad):
    pictures = plain()
    pictures['exterior_left'] = bad
    with pytest.raises(ObservationError, match=f'exterior_left: found {bad.dtype}.*wanted uint8'):
        compose(pictures)
