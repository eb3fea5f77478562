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
from cosmos3_ros.tasks.canvas import fit_canvas
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


def cancelled(model, chunks, stop):
    """A session whose last chunk was cancelled at a yield, and the frames that it handed out."""
    driven, frames = session(model), []
    for rows in chunks[:-1]:
        finish(driven.run(rows, lambda frame: None))
    job = driven.run(chunks[-1], frames.append)
    for _ in range(stop):
        next(job)
    job.close()
    return driven, frames


@pytest.mark.parametrize('chunk', [0, 1])
def test_chunk_that_is_cancelled_before_its_first_frame_leaves_no_trace(tiny, decoded, chunk):
    chunks, whole, wanted = (ROWS[:8], ROWS[8:]), [], None
    driven = session(tiny)
    for rows in chunks[:chunk + 1]:
        before, decoded.latents = len(whole), []
        yields = finish(driven.run(rows, whole.append))
        wanted = torch.cat(decoded.latents, 1)
    for stop in range(1, yields + 1):
        driven, given = cancelled(tiny, [*chunks[:chunk], -ROWS[:8]], stop)
        if given:
            break
        assert (driven.frames, driven.windows) == (before, chunk), stop
        frames, decoded.latents = [], []
        finish(driven.run(chunks[chunk], frames.append))
        assert torch.equal(torch.cat(decoded.latents, 1), wanted), stop
        assert [frame.index for frame in frames] == list(range(before, len(whole)))
        for frame, other in zip(frames, whole[before:], strict=True):
            assert np.array_equal(frame.image, other.image), stop
    assert stop > SMALL.steps


@pytest.mark.parametrize('chunk', [0, 1])
def test_chunk_that_is_cancelled_ends_at_its_last_frame_handed_out(tiny, decoded, chunk):
    """No index is given to two pictures, and the next chunk begins at that frame."""
    chunks, before = [ROWS[:8], ROWS[8:]][:chunk + 1], 9 * chunk
    yields = finish(cancelled(tiny, chunks, 0)[0].run(chunks[-1], lambda frame: None))
    counts = set()
    for stop in range(SMALL.steps, yields + 1):
        driven, given = cancelled(tiny, chunks, stop)
        if not given:
            continue
        counts.add(len(given))
        assert (driven.frames, driven.windows) == (before + len(given), chunk + 1), stop
        frames, decoded.latents = [], []
        finish(driven.run(-ROWS[:8], frames.append))
        assert [frame.index for frame in given + frames] == list(
            range(before, before + len(given) + 8)), stop
        assert {frame.window for frame in frames} == {chunk + 1}
        start = tiny.vae.encode_frame(fit_canvas(given[-1].image, SMALL.tier).pixels())
        assert torch.equal(decoded.latents[0], start[:, :, :3, :4]), stop
    assert counts == ({4, 8} if chunk else {1, 5, 9})


@pytest.mark.parametrize('call, handed_out', [(1, 0), (3, 5)])
def test_chunk_that_fails_ends_at_its_last_frame_handed_out(tiny, monkeypatch, call, handed_out):
    whole, frames = [], []
    finish(session(tiny).run(ROWS[:8], whole.append))
    driven, decoder = session(tiny), tiny.vae.decoder
    with monkeypatch.context() as patch:
        calls, run = [], decoder.head

        def fail(*arguments, **options):
            calls.append(1)
            if len(calls) == call:
                raise MemoryError
            return run(*arguments, **options)

        patch.setattr(decoder, 'head', fail)
        with pytest.raises(MemoryError):
            finish(driven.run(ROWS[:8], frames.append))
    assert (driven.frames, driven.windows) == (handed_out, int(handed_out > 0))
    assert len(frames) == handed_out
    finish(driven.run(ROWS[:8], frames.append))
    assert [frame.index for frame in frames] == list(range(len(frames)))
    for frame, other in zip(frames, whole[:handed_out or 9]):
        assert np.array_equal(frame.image, other.image)


@pytest.mark.parametrize('changed', [
    {'fps': -15.0}, {'fps': 1e-12}, {'fps': 1000.0}, {'fps': float('nan')}, {'steps': 0},
    {'steps': 1001}, {'shift': -5.0}, {'shift': float('nan')}, {'shift': float('inf')}], ids=str)
def test_recipe_that_cannot_be_is_refused(changed):
    (name, value), = changed.items()
    with pytest.raises(ValueError, match=f'{name} is {value}, wanted '):
        DynamicsRecipe(**changed)


def test_chunk_that_would_hold_up_others_is_refused(tiny):
    """On a canvas of 320 x 192 a latent has 240 pixels, and 100,000 are the most."""
    driven = session(tiny, image=picture(192, 320))
    assert driven.span(np.zeros((4 * 415, 8), np.float32)) == 4 * 415 + 1
    with pytest.raises(ValueError, match='window is 417 latents of 320x192, wanted at most 416'):
        next(driven.run(np.zeros((4 * 416, 8), np.float32), lambda frame: None))


def test_prompt_is_cut_into_tokens_before_the_job(tiny, monkeypatch):
    with pytest.raises(ValueError, match='prompt has .*, wanted at most 4096 tokens'):
        session(tiny, prompt='word ' * 5000)
    driven = session(tiny)
    monkeypatch.delattr(type(tiny.tokenizer), 'encode')
    finish(driven.run(ROWS[:4], lambda frame: None))
