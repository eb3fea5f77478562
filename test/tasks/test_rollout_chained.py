# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The chained mode against diffusers' transformer with the overlap pinned by hand."""
from dataclasses import replace

import pytest
import torch

from cosmos3_ros.model.positions import Layout
from cosmos3_ros.tasks.rollout import RolloutRecipe, RolloutSession
from diffusers_reference import assert_close, forward
from rollout_reference import finish, guided, picture, sample

PROMPT, NEGATIVE, OTHER = 'A robot arm pours water into a glass.', 'blurry', 'It spills.'
SEED = 9
CHAINED = RolloutRecipe(mode='chained', width=80, height=48, window=4, overlap=2, steps=3)


def pinned_rollout(model, transformer, recipe, prompts, first=None):
    """All latents [C, T, h, w]: each window begins with the clean end of the one before."""
    noise = torch.Generator().manual_seed(SEED)
    size = recipe.height // 16, recipe.width // 16
    done = None
    for prompt in prompts:
        texts = [model.tokenizer.encode(text) for text in (prompt, NEGATIVE)]
        video = torch.randn(16, recipe.window, *size, generator=noise)
        given = first if done is None else done[:, -recipe.overlap:]
        clean = 0 if given is None else given.shape[1]
        if clean:
            video[:, :clean] = given
        layout = Layout(recipe.window, *size, recipe.fps, tuple(range(clean)))

        def velocity(video, timestep, texts=texts, layout=layout):
            branches = [forward(transformer, ids, layout, video, timestep)[0] for ids in texts]
            return guided(branches, recipe.guidance)

        video = sample(velocity, video, clean, recipe.steps, recipe.shift)
        done = video if done is None else torch.cat([done, video[:, recipe.overlap:]], 1)
    return done


def rollout(model, recipe, prompts, image=None):
    session = RolloutSession(model, prompts[0], NEGATIVE, recipe, SEED, image)
    for index, prompt in enumerate(prompts):
        assert session.steer(prompt) == index
        frames = 4 * recipe.window - 3 if not index else 4 * (recipe.window - recipe.overlap)
        finish(session.run(frames, lambda frame: None))


@pytest.mark.parametrize('recipe, given', [
    (CHAINED, False), (CHAINED, True), (replace(CHAINED, overlap=1, window=3), True),
    (replace(CHAINED, overlap=3, steps=2), False), (replace(CHAINED, guidance=1.0), True),
    (replace(CHAINED, fps=12.0, steps=1), True)],
    ids=['two, t2v', 'two', 'one of three', 'three, t2v', 'no guidance', 'slow'])
def test_chained_equals_pinning_by_hand(tiny, reference, decoded, recipe, given):
    image = picture(recipe.height, recipe.width) if given else None
    rollout(tiny, recipe, [PROMPT] * 3, image)
    latents, _ = decoded.take()
    first = None
    if given:
        pixels = torch.from_numpy(image).permute(2, 0, 1).float() / 127.5 - 1
        first = tiny.vae.encode_frame(pixels)
    wanted = pinned_rollout(tiny, reference, recipe, [PROMPT] * 3, first)
    assert latents.shape[1] == 3 * recipe.window - 2 * recipe.overlap
    assert_close(latents, wanted, 1e-4)


def test_steered_chain_equals_pinning_by_hand(tiny, reference, decoded):
    prompts = [PROMPT, PROMPT, OTHER]
    rollout(tiny, CHAINED, prompts)
    latents, _ = decoded.take()
    assert_close(latents, pinned_rollout(tiny, reference, CHAINED, prompts), 1e-4)


def test_only_the_overlap_is_remembered(tiny, decoded):
    """History and anchor are of the kv mode."""
    rollout(tiny, CHAINED, [PROMPT] * 3)
    base, _ = decoded.take()
    rollout(tiny, replace(CHAINED, history=0, anchor=0), [PROMPT] * 3)
    assert torch.equal(decoded.take()[0], base)
