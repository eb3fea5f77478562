# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Whole clips against diffusers' pipeline, and what every mode has in common with them."""
from dataclasses import replace

from diffusers import UniPCMultistepScheduler
import numpy as np
from PIL import Image
import pytest
import torch

from cosmos3_ros.tasks.rollout import RolloutRecipe, RolloutSession
from diffusers_reference import assert_close
from rollout_reference import decode, finish, picture

PROMPT = 'A robot arm pours water into a glass.'
NEGATIVE = 'blurry'
CLIP = RolloutRecipe(mode='clip', width=96, height=64, steps=3, shift=12.0)
SMALL = RolloutRecipe(width=48, height=32, window=2, steps=2, history=2)

CASES = {
    't2v': (CLIP, 13, False),
    'i2v': (CLIP, 13, True),
    'i2v without guidance': (replace(CLIP, guidance=1.0, steps=4), 9, True),
    't2v without guidance': (replace(CLIP, guidance=1.0, shift=5.0), 9, False),
    'i2v, odd latent sizes': (replace(CLIP, width=112, height=48), 9, True),
    't2v, odd width, slow': (replace(CLIP, width=80, fps=12.0, guidance=3.5), 9, False),
    'i2v, fast, one step': (replace(CLIP, fps=30.0, steps=1), 5, True),
    't2i': (replace(CLIP, shift=3.0, guidance=4.0), 1, False),
    't2i without guidance': (replace(CLIP, width=48, guidance=1.0, fps=16.0), 1, False),
}


def imagine(model, recipe, frames, seed=7, image=None, prompt=PROMPT):
    """A session and its first frames."""
    session, out = RolloutSession(model, prompt, NEGATIVE, recipe, seed, image), []
    finish(session.run(frames, out.append))
    return session, out


def play(pipeline, recipe, frames, image, seed=7):
    """Final latents [C, T, h, w] and frames [3, F, H, W] in [-1, 1] by the pipeline."""
    latents = []

    def record(_pipe, _step, _time, tensors):
        latents.append(tensors['latents'])
        return tensors

    standing = pipeline.scheduler
    pipeline.scheduler = UniPCMultistepScheduler.from_config(standing.config,
                                                             flow_shift=recipe.shift)
    try:
        out = pipeline(
            PROMPT, NEGATIVE, image=None if image is None else Image.fromarray(image),
            num_frames=frames, height=recipe.height, width=recipe.width, fps=recipe.fps,
            num_inference_steps=recipe.steps, guidance_scale=recipe.guidance, output_type='pt',
            generator=torch.Generator().manual_seed(seed), callback_on_step_end=record,
            add_resolution_template=False, add_duration_template=False)
    finally:
        pipeline.scheduler = standing
    assert len(latents) == recipe.steps
    return latents[-1][0], out.video.permute(1, 0, 2, 3) * 2 - 1


@pytest.mark.parametrize('case', CASES)
def test_whole_clip_equals_the_pipeline(tiny, pipeline, decoded, case):
    recipe, frames, given = CASES[case]
    image = picture() if given else None
    wanted_latents, wanted = play(pipeline, recipe, frames, image)
    _, emitted = imagine(tiny, recipe, frames, image=image)
    latents, pixels = decoded.take()
    assert latents.shape[1] == (frames - 1) // 4 + 1 and wanted.std() > 0.05
    assert_close(latents, wanted_latents, 1e-4)
    assert_close(pixels, wanted, 1e-3)
    images = np.stack([frame.image for frame in emitted])
    assert images.shape == (frames, recipe.height, recipe.width, 3) and images.dtype == np.uint8
    levels = (wanted.permute(1, 2, 3, 0).numpy() + 1) * 127.5
    assert np.abs(images - levels).max() <= 1


def test_picture_is_the_first_frame(tiny, decoded):
    """Latent 0 is the picture's own, whatever the noise was."""
    image = picture(64, 96)
    imagine(tiny, CLIP, 5, image=image)
    latents, _ = decoded.take()
    pixels = torch.from_numpy(image).permute(2, 0, 1).float() / 127.5 - 1
    assert torch.equal(latents[:, :1], tiny.vae.encode_frame(pixels))


@pytest.mark.parametrize('given', [False, True], ids=['t2v', 'i2v'])
@pytest.mark.parametrize('mode', ['kv', 'chained'])
def test_first_window_is_the_whole_clip_of_its_length(tiny, decoded, mode, given):
    image = picture() if given else None
    recipe = RolloutRecipe(mode=mode, width=80, height=48, window=4, steps=3)
    imagine(tiny, replace(recipe, mode='clip'), 13, image=image)
    clip, _ = decoded.take()
    imagine(tiny, recipe, 13, image=image)
    latents, _ = decoded.take()
    assert_close(latents, clip, 1e-6)


@pytest.mark.parametrize('mode, frames', [('kv', 29), ('chained', 29), ('clip', 29)])
def test_frames_across_borders_equal_one_long_decode(tiny, pipeline, decoded, mode, frames):
    recipe = RolloutRecipe(mode=mode, width=80, height=48, window=3, overlap=1, steps=1)
    _, emitted = imagine(tiny, recipe, frames, image=picture())
    latents, pixels = decoded.take()
    assert latents.shape[1] == 8      # each once
    wanted = decode(pipeline.vae, latents)
    assert_close(pixels, wanted, 1e-5)
    images = np.stack([frame.image for frame in emitted])
    assert np.abs(images - (wanted.permute(1, 2, 3, 0).numpy() + 1) * 127.5).max() <= 0.51


@pytest.mark.parametrize('mode, first_latents', [('kv', [0, 3, 6]), ('chained', [0, 3, 5, 7]),
                                                 ('clip', [0])])
def test_frames_say_where_they_come_from(tiny, mode, first_latents):
    recipe = RolloutRecipe(mode=mode, width=48, height=32, window=3, overlap=1, steps=1)
    session, emitted = imagine(tiny, recipe, 29)
    latents = [0, *(1 + i // 4 for i in range(28))]
    windows = [sum(latent >= first for first in first_latents) - 1 for latent in latents]
    assert [frame.index for frame in emitted] == list(range(29))
    assert [frame.latent for frame in emitted] == latents
    assert [frame.window for frame in emitted] == windows
    assert (session.frames, session.windows) == (29, len(first_latents))


def test_frames_leave_latent_by_latent(tiny):
    """The first ones before the second window is begun."""
    session, emitted = RolloutSession(tiny, PROMPT, NEGATIVE, SMALL, 7), []
    counts = [(len(emitted), session.windows) for _ in session.run(13, emitted.append)]
    assert [n for i, (n, _) in enumerate(counts) if i and n != counts[i - 1][0]] == [1, 5, 9, 13]
    assert (5, 1) in counts and (9, 2) in counts


@pytest.mark.parametrize('guidance', [1.0, 6.0])
@pytest.mark.parametrize('mode', ['kv', 'chained', 'clip'])
def test_every_step_and_every_decoded_latent_yields(tiny, decoded, monkeypatch, mode, guidance):
    """Between two yields: at most one step of all branches begun, or one latent decoded."""
    forwards = []
    velocity = type(tiny.transformer).velocity

    def count(*arguments, **options):
        forwards.append(1)
        return velocity(*arguments, **options)

    monkeypatch.setattr(type(tiny.transformer), 'velocity', count)
    recipe = replace(SMALL, mode=mode, guidance=guidance, overlap=1, window=2, steps=3)
    session = RolloutSession(tiny, PROMPT, NEGATIVE, recipe, 7)
    work, before = [], (0, 0)
    for _ in session.run(13, lambda frame: None):
        done = len(forwards), len(decoded.latents)
        work.append(tuple(now - then for now, then in zip(done, before)))
        before = done
    windows = {'kv': 2, 'chained': 3, 'clip': 1}[mode]
    assert set(work) <= {(0, 0), (1, 0), (0, 1)}
    assert work.count((1, 0)) == 3 * windows
    assert work.count((0, 1)) == 4


@pytest.mark.parametrize('changed', [
    {'mode': 'stream'}, {'width': 50}, {'height': 0}, {'window': 0}, {'steps': 0},
    {'history': -1}, {'anchor': -1}, {'mode': 'chained', 'overlap': 0},
    {'mode': 'chained', 'overlap': 8}, {'fps': 0.0}, {'fps': 61.0}, {'fps': float('nan')},
    {'steps': 1001}, {'guidance': -1.0}, {'guidance': float('nan')}, {'guidance': float('inf')},
    {'shift': 0.0}, {'shift': -5.0}, {'shift': float('nan')}, {'shift': float('inf')},
    {'window': 65},
], ids=str)
def test_recipe_that_cannot_be_is_refused(changed):
    name, value = list(changed.items())[-1]
    with pytest.raises(ValueError, match=f'(?s){name}.*{value}'):
        RolloutRecipe(**changed)


@pytest.mark.parametrize('first, then', [(0, None), (-3, None), (4, None), (12, None), (5, 5),
                                         (5, 1), (5, 0), (5, 6)])
def test_frames_that_end_within_a_latent_are_refused(tiny, first, then):
    session = RolloutSession(tiny, PROMPT, NEGATIVE, SMALL, 7)
    asked = first
    if then is not None:
        finish(session.run(first, lambda frame: None))
        asked = then
    with pytest.raises(ValueError, match=f'frames is {asked}.*4 n'):
        finish(session.run(asked, lambda frame: None))
    assert session.frames == (0 if then is None else first)
