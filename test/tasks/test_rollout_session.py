# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions that go on: after requests, cancels, errors and new prompts."""
from dataclasses import replace

import numpy as np
import pytest
import torch

from cosmos3_ros.model.branches import KeyValues
from cosmos3_ros.model.history import History
from cosmos3_ros.model.vae import StreamingDecoder
from cosmos3_ros.tasks import rollout
from cosmos3_ros.tasks.rollout import RolloutRecipe, RolloutSession
from rollout_reference import finish, picture

PROMPT, NEGATIVE, OTHER = 'A robot arm pours water into a glass.', 'blurry', 'It spills.'
SMALL = RolloutRecipe(width=48, height=32, window=2, overlap=1, history=2, steps=2)
MODES = {'kv': SMALL, 'chained': replace(SMALL, mode='chained'),
         'kv, no guidance': replace(SMALL, guidance=1.0)}


def start(model, recipe=SMALL, image=None, prompt=PROMPT):
    return RolloutSession(model, prompt, NEGATIVE, recipe, 7, image)


def images(frames):
    assert [frame.index for frame in frames] == list(range(len(frames)))
    return np.stack([frame.image for frame in frames])


def equal(frames, others):
    return np.array_equal(images(frames), images(others)) and (
        [(f.window, f.latent) for f in frames] == [(f.window, f.latent) for f in others])


@pytest.mark.parametrize('mode, parts', [
    ('kv', (29, 32)), ('kv', (1, 4, 40, 16)), ('chained', (29, 32)), ('chained', (9, 52))], ids=str)
def test_two_requests_equal_one(tiny, decoded, mode, parts):
    recipe = RolloutRecipe(mode=mode, width=32, height=32, steps=1, history=4)
    whole, split = [], []
    finish(start(tiny, recipe, picture()).run(61, whole.append))
    wanted, _ = decoded.take()
    session = start(tiny, recipe, picture())
    for frames in parts:
        finish(session.run(frames, split.append))
    assert torch.equal(decoded.take()[0], wanted)
    assert equal(split, whole) and len(whole) == 61


@pytest.mark.parametrize('mode', MODES)
def test_cancel_at_any_yield_and_going_on_equals_not_having_stopped(tiny, decoded, mode):
    whole = []
    yields = finish(start(tiny, MODES[mode], picture()).run(13, whole.append))
    wanted, _ = decoded.take()
    for stop in range(yields):
        session, frames = start(tiny, MODES[mode], picture()), []
        job = session.run(13, frames.append)
        for _ in range(stop):
            next(job)
        job.close()
        assert session.frames == len(frames)
        if len(frames) < 13:
            finish(session.run(13 - len(frames), frames.append))
        assert torch.equal(decoded.take()[0], wanted), f'stopped at yield {stop}'
        assert equal(frames, whole), f'stopped at yield {stop}'


def test_many_cancels_leave_no_trace(tiny, decoded):
    """Every window is given up at each of its yields before it is finished."""
    whole = []
    finish(start(tiny).run(17, whole.append))
    wanted, _ = decoded.take()
    session, frames, patience = start(tiny), [], 1
    while len(frames) < 17:
        job = session.run(17 - len(frames), frames.append)
        before = len(frames)
        for _ in range(patience):
            next(job, None)             # the last frames come when there is no more to do
        job.close()
        patience = 1 if len(frames) > before else patience + 1
    assert torch.equal(decoded.take()[0], wanted) and equal(frames, whole)


@pytest.mark.parametrize('mode, place, method, at', [
    *((mode, 'transformer', 'velocity', at) for mode in ('kv', 'chained') for at in range(4)),
    *(('kv', 'transformer', 'write', at) for at in (0, 1)),
    *((mode, 'decoder', 'head', at) for mode in ('kv', 'chained') for at in (0, 3)),
    ('kv', 'vae', 'encode_frame', 0), ('kv', 'rollout', 'to_images', 2)], ids=str)
def test_error_leaves_the_session_at_its_last_commit(tiny, decoded, monkeypatch, mode, place,
                                                     method, at):
    whole = []
    finish(start(tiny, MODES[mode], picture()).run(13, whole.append))
    wanted, _ = decoded.take()
    session, frames = start(tiny, MODES[mode], picture()), []
    owner = {'transformer': tiny.transformer, 'decoder': tiny.vae.decoder,
             'vae': tiny.vae, 'rollout': rollout}[place]
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, failing(getattr(owner, method), at))
        with pytest.raises(MemoryError, match='no room'):
            finish(session.run(13, frames.append))
    assert session.frames == len(frames) < 13
    committed = session.windows, session.latents
    finish(session.run(13 - len(frames), frames.append))
    assert committed < (session.windows, session.latents) or place in ('decoder', 'rollout')
    latents, _ = decoded.take()
    assert torch.equal(latents, wanted) or place == 'rollout'   # there one is decoded again
    assert equal(frames, whole)


def failing(method, at):
    """The method, but its call number `at` takes effect and then fails."""
    calls = []

    def call(*arguments, **options):
        calls.append(1)
        value = method(*arguments, **options)
        if len(calls) == at + 1:
            raise MemoryError('no room')
        return value
    return call


def test_reader_that_fails_does_not_spoil_the_session(tiny):
    """Frames it did not take are gone; those after them are the same and keep their index."""
    whole, frames = [], []
    finish(start(tiny).run(17, whole.append))
    session = start(tiny)

    def take(frame):
        if frame.index == 3:
            raise OSError('no reader')
        frames.append(frame)

    with pytest.raises(OSError, match='no reader'):
        finish(session.run(17, take))
    finish(session.run(17 - session.frames, frames.append))
    assert [frame.index for frame in frames] == [0, 1, 2, *range(5, 17)]
    for frame in frames:
        assert np.array_equal(frame.image, whole[frame.index].image)


def test_seed_prompts_picture_and_recipe_tell(tiny, decoded):
    def latents(prompt=PROMPT, negative=NEGATIVE, recipe=SMALL, seed=7, image=None):
        finish(RolloutSession(tiny, prompt, negative, recipe, seed, image).run(5, lambda f: None))
        return decoded.take()[0]

    base = latents()
    assert torch.equal(latents(), base)
    for changed in ({'prompt': OTHER}, {'negative': ''}, {'seed': 8}, {'image': picture()},
                    {'recipe': replace(SMALL, guidance=3.0)},
                    {'recipe': replace(SMALL, shift=5.0)},
                    {'recipe': replace(SMALL, fps=12.0)}):
        assert (latents(**changed) - base).abs().max() > 1e-3 * base.abs().max(), changed


@pytest.mark.parametrize('mode', ['kv', 'chained'])
def test_steer_changes_the_next_window_and_no_other(tiny, mode):
    """At any yield: windows that are begun keep their prompt, and steer names the first new one."""
    whole = []
    job = start(tiny, MODES[mode]).run(13, whole.append)
    yields = finish(job)
    seen = set()
    for stop in range(yields):
        session, frames = start(tiny, MODES[mode]), []
        job = session.run(13, frames.append)
        for _ in range(stop):
            next(job)
        window = session.steer(OTHER)
        for _ in job:
            pass
        for frame, other in zip(frames, whole, strict=True):
            if frame.window < window:
                assert np.array_equal(frame.image, other.image), (stop, frame.window)
        changed = {f.window for f, o in zip(frames, whole) if not np.array_equal(f.image, o.image)}
        assert min(changed, default=99) == window or window > whole[-1].window, (stop, changed)
        seen.add(window)
    assert seen == set(range(whole[-1].window + 2))


def test_steer_between_requests_is_for_the_next_window(tiny):
    session = start(tiny)
    assert session.steer(PROMPT) == 0
    finish(session.run(5, lambda frame: None))      # window 0, all of it
    assert session.steer(OTHER) == 1
    finish(session.run(4, lambda frame: None))      # half of window 1
    assert session.steer(PROMPT) == 2


@pytest.mark.parametrize('mode', ['kv', 'chained'])
def test_window_that_is_cancelled_after_a_steer_keeps_its_prompt(tiny, mode):
    """Going on equals not having stopped, the window of the new prompt included."""
    runs = []
    for stopped in (False, True):
        session, frames = start(tiny, MODES[mode]), []
        job = session.run(13, frames.append)
        next(job)
        assert session.steer(OTHER) == 1
        if stopped:
            job.close()
            job = session.run(13, frames.append)
        finish(job)
        runs.append(frames)
    assert equal(*runs)


def test_steer_after_a_cancel_is_for_the_window_that_was_given_up(tiny):
    session, frames, wanted = start(tiny), [], []
    job = session.run(9, frames.append)
    next(job)
    job.close()
    assert session.steer(OTHER) == 0
    finish(session.run(9, frames.append))
    finish(start(tiny, prompt=OTHER).run(9, wanted.append))
    assert equal(frames, wanted)


def test_sessions_side_by_side_do_not_mix(tiny):
    recipes = [SMALL, replace(SMALL, mode='chained'), replace(SMALL, width=32, history=1)]
    alone, mixed = [[] for _ in recipes], [[] for _ in recipes]
    for recipe, frames in zip(recipes, alone):
        finish(start(tiny, recipe).run(13, frames.append))
    jobs = [start(tiny, recipe).run(13, frames.append)
            for recipe, frames in zip(recipes, mixed)]
    while jobs:
        jobs = [job for job in jobs if next(job, 'done') is None]
    for one, other in zip(alone, mixed):
        assert equal(one, other)


@pytest.mark.parametrize('recipe, steers', [
    (SMALL, ()), (replace(SMALL, window=4, history=8, anchor=2, width=96, height=64), ()),
    (replace(SMALL, guidance=1.0), ()), (replace(SMALL, history=0, anchor=0), ()),
    (replace(SMALL, mode='chained'), ()), (replace(SMALL, mode='clip', width=160), ()),
    (SMALL, (OTHER,))], ids=str)
def test_planned_memory_covers_what_is_held(tiny, recipe, steers):
    session = start(tiny, recipe)
    finish(session.run(17, lambda frame: None))
    for prompt in steers:
        session.steer(prompt)
        finish(session.run(8, lambda frame: None))
    prompts = [session.prompt, NEGATIVE] if recipe.guidance != 1 else [session.prompt]
    tokens = sum(len(tiny.tokenizer.encode(prompt)) for prompt in prompts)
    planned = RolloutSession.device_bytes(tiny, recipe, tokens)
    held = sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
                for t in tensors(session)}.values())
    assert held <= planned <= 2 * held


def tensors(thing):
    """What a session keeps of its own: keys, values and the decoder's features."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, History):
        yield from (thing.keys, thing.values)
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from tensors(part)
    elif isinstance(thing, StreamingDecoder):
        yield from tensors(thing._features)
    elif isinstance(thing, RolloutSession):
        yield from tensors([thing._memories, thing._decoder])


@pytest.mark.parametrize('mode', ['chained', 'clip'])
def test_planned_memory_covers_the_window_that_is_made(tiny, mode):
    small, large = (RolloutSession.device_bytes(tiny, replace(SMALL, mode=mode, window=window), 0)
                    for window in (2, 12))
    tokens = 2 * 10 * 2         # branches, latents, tokens of each: 3 x 2 latent pixels, by fours
    assert large - small == tokens * KeyValues.bytes_per_token(tiny.config, tiny.dtype)


def test_prompts_are_cut_into_tokens_before_the_job(tiny, monkeypatch):
    session = start(tiny)
    assert session.steer(OTHER) == 0
    monkeypatch.delattr(type(tiny.tokenizer), 'encode')
    finish(session.run(5, lambda frame: None))
    assert session.prompt == OTHER


def test_prompt_that_is_too_long_is_refused(tiny):
    session, long = start(tiny), 'word ' * 5000
    for refused in (lambda: start(tiny, prompt=long), lambda: session.steer(long)):
        with pytest.raises(ValueError, match='prompt has .* tokens, wanted at most 4096 tokens'):
            refused()
    with pytest.raises(ValueError, match='negative_prompt has'):
        RolloutSession(tiny, PROMPT, long, SMALL, 7)
    finish(session.run(1, lambda frame: None))
    assert session.prompt == PROMPT


@pytest.mark.parametrize('mode', ['kv', 'chained'])
def test_first_window_that_is_cancelled_before_its_first_frame_is_the_next(tiny, mode):
    session, frames = start(tiny, MODES[mode]), []
    job = session.run(5, frames.append)
    while session.windows == 0:
        next(job)
    job.close()
    assert session.frames == 0
    finish(session.run(session.window_frames, frames.append))
    assert [frame.window for frame in frames] == [0] * 5


@pytest.mark.parametrize('mode', ['kv', 'chained'])
def test_frames_of_the_next_window_are_known_before(tiny, mode):
    session = start(tiny, MODES[mode])
    for window in range(3):
        frames = []
        finish(session.run(session.window_frames, frames.append))
        assert {frame.window for frame in frames} == {window}
        assert session.windows == window + 1
    assert session.frames == (4 * session.latents - 3)
