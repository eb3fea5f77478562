# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A start picture on the video's size, against the pipeline's own preparation."""
from diffusers.pipelines.cosmos.pipeline_cosmos3_omni import _preprocess_conditioning_image
import numpy as np
import pytest
import torch

from cosmos3_ros.tasks.canvas import cover
from rollout_reference import picture


@pytest.mark.parametrize('source', [(48, 64), (96, 128), (100, 90), (33, 257), (31, 47), (7, 5)],
                         ids=str)
@pytest.mark.parametrize('size', [(64, 96), (96, 64), (48, 48)], ids=str)
def test_picture_covers_the_size_as_in_the_pipeline(source, size):
    image = picture(*source) ^ np.random.RandomState(0).randint(0, 32, (*source, 3), np.uint8)
    wanted = _preprocess_conditioning_image(image, *size)[0]
    covered = cover(image, *size)
    assert covered.shape == (3, *size) and covered.dtype == torch.float32
    assert torch.equal(covered, wanted)


def test_picture_of_the_size_stays_as_it_is():
    image = picture(32, 48)
    pixels = torch.from_numpy(image).permute(2, 0, 1).float() / 127.5 - 1
    assert torch.equal(cover(image, 32, 48), pixels)
