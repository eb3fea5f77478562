# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Time embedding and patches against recorded values."""
import numpy as np
import pytest
import torch

from cosmos3_ros.model.positions import Layout
from cosmos3_ros.model.transformer import patchify, unpatchify


def test_sinusoids_equal_the_recorded_ones(tiny, golden):
    recorded = golden('timestep_embedding')
    ours = tiny.transformer.time_embedder.sinusoids(torch.from_numpy(recorded['timesteps']))
    assert ours.dtype == torch.float32
    assert np.abs(ours.numpy() - recorded['embedding_256']).max() <= 2e-7


def test_patches_equal_the_recorded_ones(golden):
    recorded = golden('patchify')
    latent = torch.from_numpy(recorded['latent_1x3x2x3x4'][0])
    assert np.array_equal(patchify(latent, 2).numpy(), recorded['tokens'])


@pytest.mark.parametrize('size', [(1, 2, 2), (3, 4, 6), (2, 3, 5), (4, 33, 40)])
def test_unpatchify_undoes_patchify(size):
    latent = torch.randn(16, *size, generator=torch.Generator().manual_seed(0))
    tokens = patchify(latent, 2)
    assert tokens.shape == (size[0] * -(-size[1] // 2) * -(-size[2] // 2), 64)
    assert torch.equal(unpatchify(tokens, Layout(*size, 24.0), 2), latent)


def test_token_holds_rows_then_columns_then_channels():
    latent = torch.zeros(3, 2, 4, 6)
    latent[2, 1, 3, 4] = 1      # channel 2, frame 1, row 1 and column 0 of patch (1, 2)
    [[token, place]] = torch.nonzero(patchify(latent, 2)).tolist()
    assert token == 1 * 6 + 1 * 3 + 2
    assert place == (1 * 2 + 0) * 3 + 2
