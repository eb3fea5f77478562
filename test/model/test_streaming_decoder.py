# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Latents decoded one at a time against diffusers' decoding of the whole video."""
import copy

from diffusers import AutoencoderKLWan
import pytest
import torch

from cosmos3_ros.model import vae
from cosmos3_ros.model.vae import StreamingDecoder
from diffusers_reference import assert_close
from rollout_reference import decode


@pytest.fixture(scope='module')
def wan(tiny_folder):
    return AutoencoderKLWan.from_pretrained(tiny_folder / 'vae').eval()


def latents(frames, height=3, width=5, seed=0):
    return torch.randn(16, frames, height, width, generator=torch.Generator().manual_seed(seed))


def stream(decoder, video):
    return [decoder.decode(latent) for latent in video.split(1, dim=1)]


@pytest.mark.parametrize('size', [(1, 2, 3), (2, 1, 1), (6, 3, 5), (9, 4, 2)], ids=str)
def test_latents_one_at_a_time_equal_the_whole(tiny, wan, size):
    video = latents(*size)
    parts = stream(StreamingDecoder(tiny.vae), video)
    assert [part.shape[1] for part in parts] == [1] + [4] * (size[0] - 1)
    wanted = decode(wan, video)
    assert wanted.std() > 0.05
    assert_close(torch.cat(parts, 1), wanted, 1e-5)


def test_frames_stay_in_range(tiny, wan):
    video = 20 * latents(3)
    frames = torch.cat(stream(StreamingDecoder(tiny.vae), video), 1)
    assert frames.dtype == torch.float32
    assert frames.abs().max() == 1 == decode(wan, video).abs().max()


def test_the_past_tells(tiny):
    """A latent decoded after others gives other frames than one that begins a video."""
    decoder, video = StreamingDecoder(tiny.vae), latents(3)
    stream(decoder, video)
    again, fresh = decoder.decode(video[:, :1]), StreamingDecoder(tiny.vae).decode(video[:, :1])
    assert (again.shape[1], fresh.shape[1]) == (4, 1)
    other = StreamingDecoder(tiny.vae)
    stream(other, latents(3, seed=1))
    assert (other.decode(video[:, :1]) - again).abs().max() > 0.01


def test_two_decoders_of_one_vae_do_not_mix(tiny, wan):
    videos = latents(4, seed=1), latents(4, 2, 3, seed=2)
    decoders = StreamingDecoder(tiny.vae), StreamingDecoder(tiny.vae)
    frames = [[], []]
    for i in range(4):
        for video, decoder, out in zip(videos, decoders, frames):
            out.append(decoder.decode(video[:, i:i + 1]))
        tiny.vae.encode_frame(torch.zeros(3, 32, 32))
    for video, out in zip(videos, frames):
        assert_close(torch.cat(out, 1), decode(wan, video), 1e-5)


@pytest.mark.parametrize('at', [0, 1, 3])
@pytest.mark.parametrize('part', ['run', 'head'])
def test_failing_decode_leaves_the_state_as_it_was(tiny, monkeypatch, at, part):
    video = latents(5)
    wanted = stream(StreamingDecoder(tiny.vae), video)
    decoder = StreamingDecoder(tiny.vae)
    before = stream(decoder, video[:, :at]) if at else []
    with monkeypatch.context() as patch:
        patch.setattr(tiny.vae.decoder, part, fail)
        for _ in range(2):
            with pytest.raises(MemoryError):
                decoder.decode(video[:, at:at + 1])
    assert decoder.latents == at
    for ours, theirs in zip([*before, *stream(decoder, video[:, at:])], wanted, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize('at', [0, 2])
def test_decode_given_up_at_any_yield_leaves_the_state_as_it_was(tiny, monkeypatch, at):
    monkeypatch.setattr(vae, 'UNIT', 0)
    video = latents(at + 2)
    wanted = stream(StreamingDecoder(tiny.vae), video)
    decoder = StreamingDecoder(tiny.vae)
    if at:
        stream(decoder, video[:, :at])
    parts = sum(1 for _ in copy.copy(decoder).decoding(video[:, at:at + 1]))
    assert parts > 20
    for stop in range(parts):
        job = decoder.decoding(video[:, at:at + 1])
        for _ in range(stop + 1):
            next(job)
        job.close()
    assert decoder.latents == at
    for ours, theirs in zip(stream(decoder, video[:, at:]), wanted[at:], strict=True):
        assert torch.equal(ours, theirs)


def fail(*arguments, **options):
    raise MemoryError


@pytest.mark.parametrize('size', [(3, 5), (4, 8)], ids=str)
def test_planned_memory_covers_the_feature_cache(tiny, size):
    decoder = StreamingDecoder(tiny.vae)
    stream(decoder, latents(3, *size))
    held = sum(part.untyped_storage().nbytes() for part in decoder._features
               if isinstance(part, torch.Tensor))
    planned = StreamingDecoder.device_bytes(tiny.vae, *size)
    assert held <= planned <= 2 * held
