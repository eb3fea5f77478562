# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Videos driven by action rows, against diffusers' pipeline and transformer."""
from dataclasses import replace

from diffusers import CosmosActionCondition, UniPCMultistepScheduler
import numpy as np
from PIL import Image
import pytest
import torch

from cosmos3_ros.model.positions import Layout
from cosmos3_ros.tasks.dynamics import DynamicsRecipe, DynamicsSession
from diffusers_reference import assert_close, forward
from rollout_reference import decode, finish, picture, sample

PROMPT = 'Pick up the banana'
RECIPE = DynamicsRecipe(tier=256, steps=3, row_offset=1)
SMALL = replace(RECIPE, steps=2)
ROWS = np.random.RandomState(2).standard_normal((16, 10)).astype(np.float32)


def caption(pipeline, frames, fps=15.0):
    """What the pipeline makes of the prompt, on a canvas of 192 x 320."""
    return pipeline._build_action_json_prompt(PROMPT, view_point='ego_view', num_frames=frames,
                                              fps=fps, height=192, width=320)


def play(pipeline, rows, image, generator, steps, shift=10.0, fps=15.0):
    """Final latents [C, T, h, w] and frames [3, F, H, W] in [-1, 1] by the pipeline."""
    latents = []

    def record(_pipe, _step, _time, tensors):
        latents.append(tensors['latents'])
        return tensors

    standing = pipeline.scheduler
    pipeline.scheduler = UniPCMultistepScheduler.from_config(standing.config, flow_shift=shift)
    action = CosmosActionCondition('forward_dynamics', len(rows), 'droid_lerobot',
                                   resolution_tier=256, raw_actions=torch.from_numpy(rows),
                                   image=Image.fromarray(image))
    try:
        out = pipeline(PROMPT, fps=fps, num_inference_steps=steps, guidance_scale=1.0,
                       action=action, output_type='pt', generator=generator,
                       callback_on_step_end=record)
    finally:
        pipeline.scheduler = standing
    return latents[-1][0], out.video.permute(1, 0, 2, 3) * 2 - 1


def check_images(frames, wanted):
    levels = (wanted.permute(1, 2, 3, 0).numpy() + 1) * 127.5
    assert np.abs(np.stack([frame.image for frame in frames]) - levels).max() <= 1


def session(model, recipe=SMALL, image=None, prompt=PROMPT):
    return DynamicsSession(model, prompt, recipe, 11, picture(48, 64) if image is None else image)


@pytest.mark.parametrize('count, recipe, size', [
    (16, RECIPE, (96, 160)), (8, replace(RECIPE, fps=10.0, shift=5.0), (112, 208)),
    (4, replace(RECIPE, steps=1), (192, 320))], ids=['16', '8', '4'])
def test_chunk_equals_the_pipeline(tiny, pipeline, decoded, count, recipe, size):
    image, rows, frames = picture(*size), ROWS[:count], []
    wanted_latents, wanted = play(pipeline, rows, image, torch.Generator().manual_seed(11),
                                  recipe.steps, recipe.shift, recipe.fps)
    prompt = caption(pipeline, count + 1, recipe.fps)
    finish(session(tiny, recipe, image, prompt).run(rows, frames.append))
    latents, pixels = decoded.take()
    assert_close(latents, wanted_latents, 1e-4)
    assert_close(pixels, wanted, 1e-3)
    assert [frame.index for frame in frames] == list(range(count + 1))
    assert [frame.latent for frame in frames] == [0, *(1 + i // 4 for i in range(count))]
    check_images(frames, wanted)


def test_second_chunk_begins_at_the_last_frame_of_the_first(tiny, pipeline, decoded):
    """Its frame 0 was emitted already; noise and indices run on."""
    first, second = ROWS[:8], ROWS[8:]
    driven, frames = session(tiny, image=picture(96, 160), prompt=caption(pipeline, 9)), []
    finish(driven.run(first, frames.append))
    decoded.take()
    finish(driven.run(second, frames.append))
    latents, pixels = decoded.take()

    noise = torch.Generator().manual_seed(11)
    torch.randn(16, 3, 6, 10, generator=noise)
    wanted_latents, wanted = play(pipeline, second, frames[8].image, noise, SMALL.steps)
    assert_close(latents, wanted_latents, 1e-4)
    assert_close(pixels, wanted, 1e-3)
    assert [frame.index for frame in frames] == list(range(17))
    assert [frame.window for frame in frames] == [0] * 9 + [1] * 8
    check_images(frames[9:], wanted[:, 1:])
    assert (driven.frames, driven.windows) == (17, 2)


def test_row_of_the_present_state_comes_with_frame_0(tiny, reference, pipeline, decoded):
    """Offset 0: nine rows for nine frames, against diffusers' transformer."""
    recipe, rows = replace(RECIPE, row_offset=0), ROWS[:9]
    finish(session(tiny, recipe, picture(96, 160)).run(rows, lambda frame: None))
    latents, pixels = decoded.take()
    layout = Layout(3, 6, 10, 15.0, (0,), 9, tuple(range(9)), 0)
    padded = torch.nn.functional.pad(torch.from_numpy(rows), (0, 54))
    ids = tiny.tokenizer.encode(PROMPT)
    video = torch.randn(16, 3, 6, 10, generator=torch.Generator().manual_seed(11))
    video[:, :1] = latents[:, :1]
    wanted = sample(lambda video, t: forward(reference, ids, layout, video, t, padded, 8)[0],
                    video, 1, recipe.steps, recipe.shift)
    assert_close(latents, wanted, 1e-4)
    assert_close(pixels, decode(pipeline.vae, wanted), 1e-3)


def test_rows_domain_and_offset_tell(tiny, decoded):
    """By far more than the tolerance above."""
    def latents(recipe=SMALL, rows=ROWS[:8]):
        finish(session(tiny, recipe).run(rows, lambda frame: None))
        return decoded.take()[0]

    base = latents()
    for other in (latents(rows=-ROWS[:8]), latents(rows=ROWS[8:]),
                  latents(replace(SMALL, domain=20)),
                  latents(replace(SMALL, row_offset=0), ROWS[:9])):
        assert torch.equal(other[:, 0], base[:, 0])
        assert (other - base).abs().max() > 1e-3 * base.abs().max()


@pytest.mark.parametrize('recipe, rows', [
    (SMALL, ROWS[:7]), (SMALL, ROWS[:9]), (SMALL, ROWS[:0]), (SMALL, ROWS[0]),
    (SMALL, ROWS[:8, :, None]), (replace(SMALL, row_offset=0), ROWS[:8]),
    (replace(SMALL, row_offset=0), ROWS[:1]), (SMALL, np.zeros((8, 65), np.float32)),
    (SMALL, np.full((8, 10), np.nan, np.float32)), (SMALL, np.full((8, 10), np.inf, np.float32)),
], ids=lambda value: str(value.shape) if isinstance(value, np.ndarray) else '')
def test_rows_that_make_no_chunk_are_refused(tiny, recipe, rows):
    driven = session(tiny, recipe)
    with pytest.raises(ValueError, match='action rows'):
        finish(driven.run(rows, lambda frame: None))
    assert (driven.frames, driven.windows) == (0, 0)


def test_every_step_and_every_decoded_latent_yields(tiny):
    frames = []
    counts = [len(frames) for _ in session(tiny, RECIPE).run(ROWS[:8], frames.append)]
    assert counts.count(0) >= RECIPE.steps
    assert sorted(set(counts)) == [0, 1, 5, 9] and counts == sorted(counts)


@pytest.mark.parametrize('chunk', [0, 1])
def test_cancelled_chunk_leaves_no_trace(tiny, decoded, chunk):
    chunks, whole, wanted = (ROWS[:8], ROWS[8:]), [], None
    driven = session(tiny)
    for rows in chunks[:chunk + 1]:
        before, decoded.latents = len(whole), []
        yields = finish(driven.run(rows, whole.append))
        wanted = torch.cat(decoded.latents, 1)
    for stop in range(1, yields + 1):
        driven, frames = session(tiny), []
        for rows in chunks[:chunk]:
            finish(driven.run(rows, lambda frame: None))
        job = driven.run(-ROWS[:8], lambda frame: None)
        for _ in range(stop):
            next(job)
        job.close()
        assert (driven.frames, driven.windows) == (before, chunk), stop
        decoded.latents = []
        finish(driven.run(chunks[chunk], frames.append))
        assert torch.equal(torch.cat(decoded.latents, 1), wanted), stop
        assert [frame.index for frame in frames] == list(range(before, len(whole)))
        for frame, other in zip(frames, whole[before:], strict=True):
            assert np.array_equal(frame.image, other.image), stop


def test_failing_chunk_leaves_no_trace(tiny, monkeypatch):
    whole, frames = [], []
    finish(session(tiny).run(ROWS[:8], whole.append))
    driven, decoder = session(tiny), tiny.vae.decoder
    with monkeypatch.context() as patch:
        calls, run = [], decoder.head

        def fail_at_the_end(*arguments, **options):
            calls.append(1)
            if len(calls) == 3:
                raise MemoryError
            return run(*arguments, **options)

        patch.setattr(decoder, 'head', fail_at_the_end)
        with pytest.raises(MemoryError):
            finish(driven.run(ROWS[:8], lambda frame: None))
    assert (driven.frames, driven.windows) == (0, 0)
    finish(driven.run(ROWS[:8], frames.append))
    assert all(np.array_equal(a.image, b.image) for a, b in zip(frames, whole, strict=True))
