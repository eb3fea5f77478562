# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Patches cut from bytes against those of transformers' image processor, bit for bit."""
import numpy as np
from PIL import Image
import pytest
import torch
from transformers import Cosmos3EdgeImageProcessor

from cosmos3_ros.model.pictures import PatchCutter


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize('processor', [
    Cosmos3EdgeImageProcessor(),
    Cosmos3EdgeImageProcessor(image_mean=[0.1, 0.5, 0.7], image_std=[0.3, 0.6, 0.2],
                              patch_size=8, rescale_factor=1 / 200)])
@pytest.mark.parametrize('size', [(480, 640), (256, 256), (64, 96), (300, 300), (37, 500),
                                  (720, 1280), (8, 8), (1000, 40)])
def test_patches_are_those_of_transformers(processor, size):
    pictures = [noise(*size, seed) for seed in range(2)]
    wanted = processor([Image.fromarray(picture) for picture in pictures], return_tensors='pt')
    cutter = PatchCutter.of(processor)
    resized = [cutter.resized(picture) for picture in pictures]
    patches = cutter.patches(torch.stack(resized))
    assert torch.equal(patches.flatten(0, 1), wanted['pixel_values'])
    assert wanted['image_grid_thw'].tolist() == [[1, *cutter.grid(one)] for one in resized]


@pytest.mark.parametrize('change', [{'do_resize': False}, {'do_rescale': False},
                                    {'do_normalize': False}, {'temporal_patch_size': 2}])
def test_unusual_processor_has_no_cutter(change):
    assert PatchCutter.of(Cosmos3EdgeImageProcessor(**change)) is None
