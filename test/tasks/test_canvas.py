# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Canvas choice, shrinking and padding."""
import hashlib
import json
from math import ceil
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.functional import resize

from cosmos3_ros.tasks.canvas import aspect, canvas_size, fit_canvas

DROID = Path(__file__).parents[1] / 'data' / 'droid'
REFERENCE = json.loads((DROID / 'canvas.json').read_text())
# The reference's table has a sixth canvas, 512x768, that diffusers' lacks; ours lacks it too.
SIXTH = (768, 512)
TABLE = [row for row in REFERENCE['crop_table'] if (row['canvas_h'], row['canvas_w']) != SIXTH]


def noise(height, width, seed=0):
    return np.random.RandomState(seed).randint(0, 256, (height, width, 3)).astype(np.uint8)


def composed(seeds):
    def camera(seed):
        blocks = np.random.RandomState(seed).randint(0, 256, (ceil(360 / 5), ceil(640 / 5), 3))
        return blocks.astype(np.uint8).repeat(5, 0).repeat(5, 1)

    wrist, *exteriors = (camera(seed) for seed in seeds)
    halves = [(e.reshape(180, 2, 320, 2, 3).sum((1, 3)) // 4).astype(np.uint8) for e in exteriors]
    return np.concatenate([wrist, np.concatenate(halves, 1)])


def test_droid_canvas_equals_the_reference_to_the_bit():
    canvas = fit_canvas(composed((110, 111, 112)), 480)
    entry = REFERENCE['b_360x640']
    pixels = canvas.pixels()
    assert hashlib.sha256(canvas.image.tobytes()).hexdigest() == entry['canvas_uint8_hwc_sha256']
    assert pixels.dtype == torch.float32 and tuple(pixels.shape) == (3, 544, 736)
    digest = hashlib.sha256(pixels.numpy().tobytes()).hexdigest()
    assert digest == entry['canvas_float32_chw_sha256']
    assert list(canvas.latent_size) == entry['latent_crop']


@pytest.mark.parametrize('row', TABLE, ids=lambda row: f"{row['tier']}-{row['h']}x{row['w']}")
def test_sizes_equal_the_reference(row):
    source = noise(row['h'], row['w'])
    canvas = fit_canvas(source, int(row['tier']))
    assert canvas.image.shape[:2] == (row['canvas_h'], row['canvas_w'])
    assert canvas.content == (row['content_h'], row['content_w'])
    assert list(canvas.latent_size) == row['latent_crop']
    if not row['resized']:
        assert np.array_equal(canvas.image[:row['h'], :row['w']], source)


def test_padding_mirrors_the_content_without_its_edge():
    source = noise(540, 640)
    image = fit_canvas(source, 480).image
    assert np.array_equal(image[540:544, :640], source[535:539][::-1])
    assert np.array_equal(image[:540, 640:], source[:, 543:639][:, ::-1])


def test_a_pad_as_long_as_the_content_repeats_the_edges_on_both_axes():
    source = noise(200, 320)                 # on 480x832: 280 rows below, 512 columns to the right
    image = fit_canvas(source, 480).image
    assert (image[200:, :320] == source[-1]).all()
    assert (image[:200, 320:] == source[:, -1:]).all()
    assert (image[200:, 320:] == source[-1, -1]).all()


def test_one_long_pad_is_enough_for_edges():
    source = noise(240, 420)                 # on 480x832: 240 rows below are too many, 412 are not
    image = fit_canvas(source, 480).image
    assert (image[:240, 420:] == source[:, -1:]).all()


@pytest.mark.parametrize('size, content', [((1080, 1920), (468, 832)), ((541, 737), (540, 736)),
                                           ((1000, 1001), (639, 640))])
def test_larger_pictures_shrink_as_torchvision_does(size, content):
    source = noise(*size)
    canvas = fit_canvas(source, 480)
    planes = torch.from_numpy(source).permute(2, 0, 1)
    expected = resize(planes, list(content), InterpolationMode.BICUBIC, antialias=True)
    assert canvas.content == content
    shrunk = canvas.image[:content[0], :content[1]]
    assert np.array_equal(shrunk, expected.permute(1, 2, 0).numpy())


def test_a_flat_picture_stays_flat_when_it_shrinks():
    canvas = fit_canvas(np.full((1280, 720, 3), 255, np.uint8), 256)
    assert canvas.image.shape == (320, 192, 3)
    assert (canvas.image == 255).all()


@pytest.mark.parametrize('size, expected', [
    ((100, 100), (640, 640)), ((864, 1000), (544, 736)), ((876, 1000), (640, 640)),
    ((1175, 1000), (640, 640)), ((1178, 1000), (736, 544)), ((657, 1000), (480, 832)),
    ((659, 1000), (544, 736)), ((1540, 1000), (736, 544)), ((1546, 1000), (832, 480)),
    ((10, 1000), (480, 832)), ((9000, 1000), (832, 480)),
])
def test_the_nearest_height_over_width_wins(size, expected):
    assert canvas_size(*size, 480) == expected


def test_pixels_run_from_minus_one_to_one():
    pixels = fit_canvas(np.stack([np.full((256, 256), v, np.uint8) for v in (0, 51, 255)], 2), 256)
    assert pixels.pixels()[:, 7, 9].tolist() == pytest.approx([-1, -0.6, 1], abs=1e-7)


def test_every_canvas_has_a_name():
    assert [aspect(544, 736), aspect(320, 192), aspect(640, 640)] == ['4,3', '9,16', '1,1']
    with pytest.raises(ValueError, match='640x540'):
        aspect(540, 640)


def test_an_unknown_tier_is_refused_with_those_known():
    with pytest.raises(ValueError, match=r'tier 512: wanted one of \[256, 480\]'):
        fit_canvas(noise(8, 8), 512)


@pytest.mark.parametrize('picture', [np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3)),
                                     np.zeros((0, 8, 3), np.uint8)])
def test_another_kind_of_picture_is_refused(picture):
    with pytest.raises(ValueError, match='wanted uint8'):
        fit_canvas(picture, 480)
