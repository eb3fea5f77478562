# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""One pass through the network against diffusers' transformer."""
from diffusers import Cosmos3OmniTransformer
import pytest
import torch

from cosmos3_ros.model.checkpoint import load, open_checkpoint
from cosmos3_ros.model.job import finish
from cosmos3_ros.model.positions import Layout
from diffusers_reference import assert_close, forward

# Of scale. A timestep wrong by one moves the output by 1e-4; rounding by less than 1e-6.
TOLERANCE = 2e-5
PROMPT = list(range(40, 130, 3))
SHORT = PROMPT[:19]
DROID = {'fps': 15.0, 'clean_frames': (0,)}

CASES = {
    'video alone': (Layout(3, 4, 6, 24.0), PROMPT, 999, 0),
    'first frame clean': (Layout(3, 4, 6, 24.0, (0,)), PROMPT, 937, 0),
    'two frames clean': (Layout(4, 4, 6, 16.0, (0, 1)), SHORT, 624, 0),
    'frames clean out of order': (Layout(4, 6, 2, 30.0, (1, 3)), PROMPT, 312, 0),
    'odd height': (Layout(3, 5, 6, 15.0, (0,)), PROMPT, 833, 0),
    'odd width': (Layout(3, 4, 7, 15.0, (0,)), SHORT, 833, 0),
    'odd both': (Layout(2, 3, 5, 15.0), PROMPT, 1, 0),
    'one frame': (Layout(1, 6, 8, 24.0), PROMPT, 500, 0),
    'state row': (Layout(3, 5, 8, rows=9, clean_rows=(0,), **DROID), PROMPT, 999, 8),
    'state row, other branch': (Layout(3, 5, 8, rows=9, clean_rows=(0,), **DROID), SHORT, 999, 8),
    'state row, later step': (Layout(3, 5, 8, rows=9, clean_rows=(0,), **DROID), PROMPT, 624, 8),
    'state row, other domain': (Layout(3, 5, 8, rows=9, clean_rows=(0,), **DROID), PROMPT, 833, 20),
    'no state row': (Layout(3, 4, 6, rows=8, row_offset=1, **DROID), PROMPT, 937, 8),
    'rows alone noisy': (Layout(2, 4, 6, 10.0, (0, 1), 4, (), 1), SHORT, 410, 0),
    'rows all clean': (Layout(3, 4, 6, 10.0, (0,), 8, tuple(range(8)), 1), PROMPT, 767, 31),
}


@pytest.fixture(scope='module')
def nano():
    """Ours and diffusers' transformer of the Nano kind, with the same weights."""
    checkpoint = open_checkpoint('random:tiny-nano')
    config = {field: getattr(checkpoint.config, field) for field in (
        'hidden_size', 'num_hidden_layers', 'num_attention_heads', 'num_key_value_heads',
        'head_dim', 'intermediate_size', 'hidden_act', 'rms_norm_eps', 'vocab_size', 'rope_theta',
        'rope_axes_dim', 'qk_norm_for_text', 'use_und_k_norm_for_gen', 'latent_channel',
        'patch_latent_dim', 'action_gen', 'action_dim', 'num_embodiment_domains')}
    assert (config['hidden_act'], config['qk_norm_for_text'], config['use_und_k_norm_for_gen'],
            config['rms_norm_eps'], config['rope_theta']) == ('silu', True, False, 1e-6, 5e6)
    reference = Cosmos3OmniTransformer(**config).eval()
    weights = {name: checkpoint.transformer.read(name) for name in checkpoint.transformer.headers}
    reference.load_state_dict(weights)
    return load('random:tiny-nano'), reference


def inputs(layout, channels, action_dim=64):
    draw = torch.Generator().manual_seed(layout.frames * layout.height + layout.width)
    video = torch.randn(channels, layout.frames, layout.height, layout.width, generator=draw)
    rows = torch.randn(layout.rows, action_dim, generator=draw) if layout.rows else None
    return video, rows


def velocities(model, prompts, layout, video, timestep, rows, domain):
    with model.branches(prompts, layout) as branches:
        return finish(model.transformer.velocity(branches, video, timestep, rows, domain))


def check(ours, reference, layout, prompt, timestep, domain):
    video, rows = inputs(layout, ours.config.latent_channel)
    value, = velocities(ours, [prompt], layout, video, timestep, rows, domain)
    wanted = forward(reference, prompt, layout, video, timestep, rows, domain)
    if len(layout.clean_frames) < layout.frames:
        assert_close(value[0], wanted[0], TOLERANCE)
    assert not value[0][:, list(layout.clean_frames)].any()
    if rows is None:
        assert value[1] is None
        return
    if len(layout.clean_rows) < layout.rows:
        assert_close(value[1], wanted[1], TOLERANCE)
    assert not value[1][list(layout.clean_rows)].any()


@pytest.mark.parametrize('case', CASES)
def test_velocity_equals_diffusers(tiny, reference, case):
    check(tiny, reference, *CASES[case])


@pytest.mark.parametrize('case', ['video alone', 'state row', 'state row, other branch',
                                  'no state row', 'odd both'])
def test_velocity_of_the_nano_kind_equals_diffusers(nano, case):
    check(*nano, *CASES[case])


@pytest.mark.parametrize('timestep', [0, 7, 250, 998, 1000])
def test_every_timestep_tells(tiny, reference, timestep):
    layout, prompt, _, domain = CASES['state row']
    check(tiny, reference, layout, prompt, timestep, domain)


def test_one_prefix_serves_branches_of_different_layouts(tiny, reference):
    for case in ('state row', 'odd width', 'state row'):
        layout, _, timestep, domain = CASES[case]
        video, rows = inputs(layout, tiny.config.latent_channel)
        value, = velocities(tiny, [PROMPT], layout, video, timestep, rows, domain)
        wanted = forward(reference, PROMPT, layout, video, timestep, rows, domain)
        assert_close(value[0], wanted[0], TOLERANCE)


def test_bf16_keeps_the_time_embedder_and_the_positions_in_fp32(tiny, tiny_folder):
    from cosmos3_ros.model.names import stored_name
    from cosmos3_ros.model.positions import generation_positions, rotary_table

    model = load(str(tiny_folder), dtype=torch.bfloat16)
    for name, parameter in model.transformer.named_parameters():
        fp32 = stored_name(name).startswith('time_embedder.')
        assert parameter.dtype == (torch.float32 if fp32 else torch.bfloat16), name

    layout, prompt, timestep, domain = CASES['state row']
    start = len(prompt) + 15000
    table = rotary_table(generation_positions(layout, start, model.config), model.config)
    assert table[0].dtype == torch.float32
    with model.branches([prompt], layout) as branch:
        assert branch.cos.dtype == branch.sin.dtype == torch.float32
        assert torch.equal(branch.cos, table[0]) and torch.equal(branch.sin, table[1])

    video, rows = inputs(layout, model.config.latent_channel)
    value, = velocities(model, [prompt], layout, video, timestep, rows, domain)
    wanted, = velocities(tiny, [prompt], layout, video, timestep, rows, domain)
    assert value[0].dtype == value[1].dtype == torch.float32
    for ours, fp32 in zip(value, wanted):
        assert 1e-4 < (ours - fp32).norm() / fp32.norm() < 0.02


@pytest.mark.parametrize('case', ['video alone', 'state row', 'odd both'])
def test_branches_in_one_batch_equal_each_alone(tiny, case):
    layout, _, timestep, domain = CASES[case]
    video, rows = inputs(layout, tiny.config.latent_channel)
    both = velocities(tiny, [PROMPT, SHORT], layout, video, timestep, rows, domain)
    assert len(both) == 2
    for prompt, value in zip((PROMPT, SHORT), both):
        alone, = velocities(tiny, [prompt], layout, video, timestep, rows, domain)
        for ours, wanted in zip(value, alone):
            if wanted is not None:
                assert_close(ours, wanted, TOLERANCE)


def test_the_first_of_two_branches_is_the_conditional_one(tiny):
    layout, _, timestep, domain = CASES['state row']
    video, rows = inputs(layout, tiny.config.latent_channel)
    with tiny.branches([PROMPT, SHORT], layout) as both:
        ours = finish(tiny.transformer.velocity(both.first(), video, timestep, rows, domain))
    other = velocities(tiny, [PROMPT], layout, video, timestep, rows, domain)
    assert torch.equal(ours[0][0], other[0][0]) and torch.equal(ours[0][1], other[0][1])


@pytest.mark.parametrize('variant', ['tiny', 'tiny-nano'])
def test_fp8_rounds_the_products_of_the_generation_tower_alone(variant):
    """Each product is rounded to 3 bits of mantissa, so the output moves by a few per cent."""
    layout, prompt, timestep, domain = CASES['state row']
    exact, ours = (load(f'random:{variant}', dtype=dtype)
                   for dtype in (torch.bfloat16, torch.float8_e4m3fn))
    assert ours.dtype == torch.bfloat16
    video, rows = inputs(layout, exact.config.latent_channel)
    wanted, value = (
        velocities(model, [prompt], layout, video, timestep, rows, domain)[0]
        for model in (exact, ours))
    for fp8, bf16 in zip(value, wanted):
        assert 0.005 < (fp8 - bf16).norm() / bf16.norm() < 0.15
    prefixes = [model.prefix(prompt) for model in (exact, ours)]
    assert torch.equal(prefixes[0].keys, prefixes[1].keys)
