# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The kv mode against a dense recompute: all windows in one sequence under a block mask."""
from dataclasses import replace

import pytest
import torch

from cosmos3_ros.model.positions import Layout
from cosmos3_ros.tasks.rollout import RolloutRecipe, RolloutSession
from diffusers_reference import assert_close, forward
from rollout_reference import (
    Window,
    dense_velocity,
    finish,
    guided,
    kept_latents,
    picture,
    sample,
)

PROMPT, NEGATIVE, OTHER = 'A robot arm pours water into a glass.', 'blurry', 'It spills.'
SEED = 5
KV = RolloutRecipe(mode='kv', width=80, height=48, window=2, history=16, anchor=1, steps=3)

CASES = {
    'nothing evicted': (KV, 3),
    'evicted, anchor stays': (replace(KV, history=2), 3),
    'evicted, no anchor': (replace(KV, history=2, anchor=0), 3),
    'evicted within a window': (replace(KV, window=3, history=2), 3),
    'two anchors, slots used again': (replace(KV, history=1, anchor=2), 4),
    'anchor alone': (replace(KV, history=0, anchor=1), 3),
    'no history': (replace(KV, history=0, anchor=0), 3),
    'history of one window': (replace(KV, anchor=0, history=1, window=1), 4),
    'without guidance': (replace(KV, history=2, guidance=1.0), 3),
    'slow': (replace(KV, history=3, fps=10.0, steps=2), 3),
}


def rollout(model, recipe, windows, image=None, steers=()):
    """Run so many windows; `steers`: prompts by the window they are for."""
    session = RolloutSession(model, PROMPT, NEGATIVE, recipe, SEED, image)
    for window in range(windows):
        if window in dict(steers):
            assert session.steer(dict(steers)[window]) == window
        frames = 4 * recipe.window
        finish(session.run(frames - 3 if not window else frames, lambda frame: None))


def dense_rollout(model, transformer, recipe, count, first=None, steers=()):
    """All latents [C, T, h, w] by diffusers' transformer under the mask.

    `first`: latent 0 of i2v.
    """
    prompts = [PROMPT, *dict(steers).values()]
    texts = [[model.tokenizer.encode(text) for text in prompts],
             [model.tokenizer.encode(NEGATIVE)]]
    noise = torch.Generator().manual_seed(SEED)
    size = recipe.height // 16, recipe.width // 16
    done, windows, text = torch.zeros(16, 0, *size), [], 0
    for index in range(count):
        start = done.shape[1]
        if index in dict(steers):
            text += 1
        kept = kept_latents(start, recipe.history, recipe.anchor)
        windows.append(Window(start, start + recipe.window, kept, text))
        video = torch.randn(16, recipe.window, *size, generator=noise)
        clean = int(index == 0 and first is not None)
        if clean:
            video[:, :1] = first

        def velocity(video, timestep, done=done, start=start, clean=clean):
            whole = torch.cat([done, video], 1)
            unsteered = [replace(window, text=0) for window in windows]
            branches = [dense_velocity(transformer, branch, placed, whole, range(start + clean),
                                       timestep, recipe.fps)[:, start:]
                        for branch, placed in zip(texts, (windows, unsteered))]
            return guided(branches, recipe.guidance)

        done = torch.cat([done, sample(velocity, video, clean, recipe.steps, recipe.shift)], 1)
    return done


def observed(model, recipe, image):
    """The picture's latent; it fills the frame already."""
    assert image.shape == (recipe.height, recipe.width, 3)
    return model.vae.encode_frame(torch.from_numpy(image).permute(2, 0, 1).float() / 127.5 - 1)


@pytest.mark.parametrize('case, given', [
    *((case, True) for case in CASES), *((case, False) for case in list(CASES)[:3])],
    ids=lambda value: {True: 'i2v', False: 't2v'}.get(value, value))
def test_kv_equals_the_dense_recompute(tiny, reference, decoded, case, given):
    recipe, windows = CASES[case]
    image = picture(recipe.height, recipe.width) if given else None
    rollout(tiny, recipe, windows, image)
    latents, _ = decoded.take()
    first = observed(tiny, recipe, image) if given else None
    wanted = dense_rollout(tiny, reference, recipe, windows, first)
    assert latents.shape[1] == windows * recipe.window
    for start in range(0, latents.shape[1], recipe.window):
        window = slice(start, start + recipe.window)
        assert_close(latents[:, window], wanted[:, window], 1e-4)


@pytest.mark.parametrize('steers', [{1: OTHER}, {2: OTHER}, {1: OTHER, 2: PROMPT * 2}], ids=str)
def test_steered_kv_equals_the_dense_recompute(tiny, reference, decoded, steers):
    """The video keeps its positions and its history, keys written under the old prompt too."""
    rollout(tiny, replace(KV, history=2), 4, steers=steers)
    latents, _ = decoded.take()
    wanted = dense_rollout(tiny, reference, replace(KV, history=2), 4, steers=steers)
    assert_close(latents, wanted, 1e-4)


def test_history_anchor_and_prompt_tell(tiny, decoded):
    """Each moves the third window by far more than the tolerance above, the others not at all."""
    def latents(recipe, steers=()):
        rollout(tiny, recipe, 3, steers=steers)
        return decoded.take()[0]

    base = latents(replace(KV, history=2))
    others = {'history': latents(replace(KV, history=1)),
              'anchor': latents(replace(KV, history=2, anchor=0)),
              'prompt': latents(replace(KV, history=2), {2: OTHER})}
    for name, other in others.items():
        assert torch.equal(other[:, :4], base[:, :4]), name
        error = (other[:, 4:] - base[:, 4:]).abs().max() / base[:, 4:].abs().max()
        assert error > 2e-3, name


def test_mask_of_one_window_changes_nothing(tiny, reference):
    """The reference of this file against diffusers' own attention."""
    ids, layout = tiny.tokenizer.encode(PROMPT), Layout(3, 3, 5, 24.0, (0,))
    video = torch.randn(16, 3, 3, 5, generator=torch.Generator().manual_seed(1))
    wanted, _ = forward(reference, ids, layout, video, 833)
    alone = dense_velocity(reference, [ids], [Window(0, 3, frozenset())], video, [0], 833, 24.0)
    assert_close(alone, wanted, 1e-5)
    beside = dense_velocity(reference, [ids, ids[:9]], [Window(0, 3, frozenset())], video, [0],
                            833, 24.0)
    assert_close(beside, wanted, 1e-5)
