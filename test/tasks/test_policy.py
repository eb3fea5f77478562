# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The DROID contract of the policy task."""
from dataclasses import replace

from diffusers import AutoencoderKLWan, Cosmos3OmniTransformer
import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.positions import Layout
from cosmos3_ros.model.transformer import Transformer
from cosmos3_ros.tasks.policy import PolicyRecipe, PolicyRequest, policy
from diffusers_reference import assert_close, encode, forward, scheduler

PROMPT = '{"actions": [{"time": "0:00-0:02", "description": "Pick up the banana."}]}'
STATE = np.array([-1.2, -0.75, -0.3, 0.15, 0.6, 1.05, 1.5, 0.75], np.float32)
# Small enough to run often: 9 frames, 3 latent frames of 12 x 15.
SMALL = PolicyRecipe(num_frames=9, tier=256, steps=2)


def picture(height, width, seed=3):
    blocks = np.random.RandomState(seed).randint(0, 256, (height // 10 + 1, width // 10 + 1, 3))
    return blocks.astype(np.uint8).repeat(10, 0).repeat(10, 1)[:height, :width].copy()


DROID = PolicyRequest(picture(540, 640), PROMPT, STATE, 0)
QUICK = PolicyRequest(picture(200, 250), PROMPT, STATE, 0, SMALL)


def run(model, request):
    """Result of a request and the number of times its generator yielded."""
    job, yields = policy(model, request), 0
    while True:
        try:
            next(job)
        except StopIteration as stop:
            return stop.value, yields
        yields += 1


class Calls:
    """Records what the network is given."""

    def __init__(self, monkeypatch):
        self.velocity, self.prefills = [], []
        velocity, prefill = Transformer.velocity, Transformer.prefill

        def recorded_velocity(network, branches, video, timestep, rows=None, domain=0):
            for memory in branches.memories:
                self.velocity.append((replace(branches, memories=(memory,)), video.clone(),
                                      timestep, rows.clone(), domain))
            return velocity(network, branches, video, timestep, rows, domain)

        def recorded_prefill(network, token_ids):
            self.prefills.append(tuple(token_ids.tolist()))
            return prefill(network, token_ids)

        monkeypatch.setattr(Transformer, 'velocity', recorded_velocity)
        monkeypatch.setattr(Transformer, 'prefill', recorded_prefill)

    @property
    def timesteps(self):
        return [timestep for _, _, timestep, _, _ in self.velocity]


@pytest.fixture(scope='module')
def model(tiny_droid_folder):
    return load(str(tiny_droid_folder))


@pytest.fixture(scope='module')
def droid(model):
    """One whole DROID request: result, yields and calls of the network."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        calls = Calls(monkeypatch)
        result, yields = run(model, DROID)
    return result, yields, calls


@pytest.fixture(scope='module')
def parts(tiny_droid_folder):
    """Tokens of both branches, transformer and VAE, loaded by their own libraries."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_droid_folder / 'text_tokenizer')
    tokens = [list(tokenizer.apply_chat_template(
        [{'role': 'user', 'content': text}], tokenize=True, add_generation_prompt=True,
        return_dict=True).input_ids) + [11, 20] for text in (PROMPT, '')]
    transformer = Cosmos3OmniTransformer.from_pretrained(tiny_droid_folder / 'transformer')
    vae = AutoencoderKLWan.from_pretrained(tiny_droid_folder / 'vae')
    return tokens, transformer.eval(), vae.eval()


@pytest.fixture(scope='module')
def first_latent(parts):
    """Latent of the observed frame: mirrored onto 544 x 736, encoded, cropped to 33 x 40."""
    canvas = np.pad(DROID.picture, ((0, 4), (0, 96), (0, 0)), mode='reflect')
    pixels = torch.from_numpy(canvas).permute(2, 0, 1).float() / 127.5 - 1
    return encode(parts[2], pixels[:, None])[:, :, :33, :40]


def test_result_is_32_rows_of_8_float32(droid):
    result, yields, _ = droid
    assert result.actions.shape == (32, 8) and result.actions.dtype == np.float32
    assert np.isfinite(result.actions).all() and result.actions.std() > 0.1
    assert result.seed == 0
    assert yields >= 5      # the encoding and four steps, and within them


def test_guidance_applies_at_the_first_step_alone(droid):
    result, _, calls = droid
    assert calls.timesteps == [999, 999, 937, 833, 624]
    assert result.forwards == len(calls.velocity) == 5
    lengths = [call[0].memories[0].prefix.length for call in calls.velocity]
    assert len(set(lengths)) == 2
    assert sorted(lengths)[1:] == [max(lengths)] * 4    # the short branch is the empty prompt


def test_network_is_given_3093_tokens_of_domain_8(droid):
    for branch, video, _, rows, domain in droid[2].velocity:
        assert branch.first().cos.shape[0] == branch.noisy.shape[0] == 3093 == 9 * 17 * 20 + 33
        assert video.shape[1:] == (9, 33, 40) and rows.shape == (33, 64)
        assert (branch.layout.fps, branch.layout.row_offset, domain) == (15.0, 0, 8)


def test_state_row_and_unused_channels_never_change(droid):
    for _, _, _, rows, _ in droid[2].velocity:
        assert np.array_equal(rows[0, :8].numpy(), STATE)
        assert not rows[:, 8:].any()


def test_first_frame_is_the_encoded_picture_at_every_step(droid, first_latent):
    for _, video, *_ in droid[2].velocity:
        assert_close(video[:, :1], first_latent, 1e-5)


def test_first_frame_never_changes_by_a_bit(droid):
    frames = [call[1][:, :1] for call in droid[2].velocity]
    assert all(torch.equal(frame, frames[0]) for frame in frames)


def test_noise_is_that_of_the_reference(droid, golden):
    noise = golden('noise')
    _, video, _, rows, _ = droid[2].velocity[0]
    assert np.array_equal(rows.numpy(), noise['seed0/initial_action_33x64'])
    assert np.array_equal(video[0, 1].numpy(), noise['seed0/video_raw_ch0_frame1'])
    drawn = np.random.RandomState(0).standard_normal(tuple(video.shape)).astype(np.float32)
    assert np.array_equal(video[:, 1:].numpy(), drawn[:, 1:])


def test_actions_equal_the_contract_played_with_diffusers(droid, parts, first_latent):
    tokens, transformer, _ = parts
    layout = Layout(9, 33, 40, 15.0, (0,), 33, (0,), 0)
    video = np.random.RandomState(0).standard_normal((16, 9, 33, 40)).astype(np.float32)
    rows = np.random.RandomState(0).standard_normal((33, 64)).astype(np.float32)
    video, rows = torch.from_numpy(video), torch.from_numpy(rows)
    video[:, :1], rows[0, :8], rows[:, 8:] = first_latent, torch.from_numpy(STATE), 0

    schedulers = scheduler(4, 5.0), scheduler(4, 5.0)
    for timestep in schedulers[0].timesteps.tolist():
        branches = tokens if 960 < timestep < 1001 else tokens[:1]
        pairs = [forward(transformer, ids, layout, video, timestep, rows, 8) for ids in branches]
        velocities = [cond if len(pairs) == 1 else uncond + 3 * (cond - uncond)
                      for cond, uncond in zip(pairs[0], pairs[-1])]
        velocities[1][:, 8:] = 0
        video, rows = (s.step(v[None], timestep, x[None], return_dict=False)[0][0]
                       for s, v, x in zip(schedulers, velocities, (video, rows)))
    assert_close(droid[0].actions, rows[1:, :8], 1e-4)


def test_seed_decides_the_result(model):
    first, again, other = (run(model, replace(QUICK, seed=seed))[0] for seed in (7, 7, 8))
    assert first.actions.tobytes() == again.actions.tobytes()
    assert np.abs(first.actions - other.actions).max() > 0.1
    assert (first.seed, other.seed) == (7, 8)


def test_picture_prompt_and_state_tell(model):
    base = run(model, QUICK)[0].actions
    for changed in ({'picture': picture(200, 250, seed=4)}, {'prompt': 'Wipe it.'},
                    {'state': STATE + np.float32(0.5)}):
        assert np.abs(run(model, replace(QUICK, **changed))[0].actions - base).max() > 1e-4


def test_prompt_is_read_once_for_many_chunks(model, monkeypatch):
    calls = Calls(monkeypatch)
    for seed in range(3):
        run(model, replace(QUICK, seed=seed, prompt='Put the cup on the plate.'))
    assert len(calls.prefills) == len(set(calls.prefills)) <= 2     # '' may be known already
    run(model, replace(QUICK, prompt='Put the cup in the sink.'))
    assert len(calls.prefills) <= 3


@pytest.mark.parametrize('interval, wanted', [
    ((960.0, 1001.0), [999, 999, 833]),
    ((960.0, 999.0), [999, 833]),           # bounds are excluded
    ((833.0, 1001.0), [999, 999, 833]),
    ((832.9, 999.0), [999, 833, 833]),
    ((0.0, 1001.0), [999, 999, 833, 833]),
])
def test_guidance_interval_is_open(model, monkeypatch, interval, wanted):
    calls = Calls(monkeypatch)
    result, _ = run(model, replace(QUICK, recipe=replace(SMALL, guidance_interval=interval)))
    assert calls.timesteps == wanted
    assert result.forwards == len(wanted)


def test_recipe_sets_size_domain_width_and_offset(model, monkeypatch):
    calls = Calls(monkeypatch)
    recipe = PolicyRecipe(num_frames=5, fps=10.0, tier=256, steps=3, shift=1.0, domain=20,
                          action_width=10, action_offset=1)
    state = np.linspace(-1, 1, 10, dtype=np.float32)
    result, _ = run(model, PolicyRequest(picture(192, 320), '', state, 1, recipe))
    branch, video, _, rows, domain = calls.velocity[-1]
    assert result.actions.shape == (4, 10)
    assert video.shape[1:] == (2, 12, 20) and rows.shape == (5, 64) and domain == 20
    assert (branch.layout.fps, branch.layout.row_offset) == (10.0, 1)
    assert np.allclose(rows[0, :10], state, atol=1e-6) and not rows[:, 10:].any()


@pytest.mark.parametrize('steps, shift', [(3, 1.0), (10, 5.0)])
def test_state_row_never_changes_by_a_bit_in_other_schedules(model, monkeypatch, steps, shift):
    calls = Calls(monkeypatch)
    state = np.linspace(-1, 1, 10, dtype=np.float32)
    recipe = replace(SMALL, steps=steps, shift=shift, action_width=10)
    run(model, replace(QUICK, recipe=recipe, state=state))
    assert all(np.array_equal(call[3][0, :10].numpy(), state) for call in calls.velocity)


def test_state_of_another_width_is_refused(model):
    with pytest.raises(ValueError, match=r'(?s)7.*8|8.*7'):
        run(model, replace(QUICK, state=STATE[:7]))


@pytest.mark.parametrize('change, words', [
    ({'action_width': 65}, ('action width', 65, 64)),
    ({'domain': 32}, ('domain', 33, 32)),
])
def test_checkpoint_that_lacks_what_the_recipe_needs_is_refused(tiny, change, words):
    recipe = replace(PolicyRecipe(), **change)
    state = np.zeros(recipe.action_width, np.float32)
    request = PolicyRequest(np.zeros((540, 640, 3), np.uint8), '', state, 0, recipe)
    with pytest.raises(ValueError) as refused:
        policy(tiny, request)
    assert all(str(word) in str(refused.value) for word in words)
