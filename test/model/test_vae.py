# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""One frame's latent against diffusers' encoding of whole clips."""
from diffusers import AutoencoderKLWan
import pytest
import torch

from diffusers_reference import assert_close, encode


@pytest.fixture(scope='module')
def wan(tiny_folder):
    return AutoencoderKLWan.from_pretrained(tiny_folder / 'vae').eval()


def frame(height=64, width=96, seed=0):
    """A picture of blocks with some noise, in [-1, 1]."""
    draw = torch.Generator().manual_seed(seed)
    blocks = torch.rand(3, -(-height // 16), -(-width // 16), generator=draw)
    smooth = blocks.repeat_interleave(16, 1).repeat_interleave(16, 2)[:, :height, :width]
    return (smooth + 0.1 * torch.rand(3, height, width, generator=draw)).clamp(0, 1) * 2 - 1


@pytest.mark.parametrize('size', [(64, 96), (48, 80), (16, 16)],
                         ids=lambda size: f'{size[0]}x{size[1]}')
def test_frame_equals_the_first_latent_of_the_repeated_clip(tiny, wan, size):
    picture = frame(*size)
    clip = encode(wan, picture[:, None].expand(-1, 13, -1, -1))
    latent = tiny.vae.encode_frame(picture)
    assert latent.dtype == torch.float32
    assert latent.shape == (16, 1, size[0] // 16, size[1] // 16)
    assert clip.shape[1] == 4
    assert_close(latent, clip[:, :1], 1e-5)


def test_frame_equals_the_first_latent_of_a_moving_clip(tiny, wan):
    clip = torch.stack([frame(seed=seed) for seed in range(5)], 1)
    assert_close(tiny.vae.encode_frame(clip[:, 0]), encode(wan, clip)[:, :1], 1e-5)


def test_nothing_is_left_over_from_the_frame_before(tiny):
    first = tiny.vae.encode_frame(frame(seed=1))
    tiny.vae.encode_frame(frame(seed=2))
    tiny.vae.encode_frame(frame(32, 48, seed=3))
    assert torch.equal(tiny.vae.encode_frame(frame(seed=1)), first)


def test_latents_are_normalised_by_channel(tiny, wan):
    picture = frame(seed=4)
    raw = wan.encode(picture[None, :, None]).latent_dist.mode()[0]
    latent = tiny.vae.encode_frame(picture)
    for channel, (mean, std) in enumerate(zip(wan.config.latents_mean, wan.config.latents_std)):
        assert_close(latent[channel] * std + mean, raw[channel].detach(), 1e-5)
