# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Positions and rotary tables against recorded values and against the rule itself."""
import numpy as np
import pytest
import torch

from cosmos3_ros.model.checkpoint import open_checkpoint
from cosmos3_ros.model.positions import Layout, generation_positions, rotary_table, text_positions

DROID = Layout(9, 33, 40, 15.0, clean_frames=(0,), rows=33, clean_rows=(0,), row_offset=0)


@pytest.fixture(scope='module')
def config():
    return open_checkpoint('random:edge').config


def test_positions_equal_the_recorded_ones(config, golden):
    wanted = golden('positions')['state_33rows_text158']
    ours = torch.cat([text_positions(158), generation_positions(DROID, 15158, config)], 1)
    assert ours.dtype == torch.float32
    assert np.array_equal(ours.numpy(), wanted)


def test_rotary_table_equals_the_recorded_one(config, golden):
    recorded = golden('rope')
    cos, sin = rotary_table(torch.from_numpy(recorded['position_ids']), config)
    assert cos.dtype == sin.dtype == torch.float32
    for ours, name in ((cos, 'cos'), (sin, 'sin')):
        assert np.abs(ours.numpy() - recorded[f'{name}_fp32']).max() <= 2e-7
        assert np.array_equal(ours.bfloat16().float().numpy(), recorded[f'{name}_bf16'])


def test_axes_take_turns_until_height_and_width_have_their_share(config):
    """Sections 24, 20, 20: frequency 3k + 1 is height's and 3k + 2 width's, below 60."""
    axis = np.array([0, 1, 2] * 20 + [0] * 4)
    frequency = config.rope_theta ** -(np.arange(64) / 64)
    positions = torch.tensor([[7.0], [3.0], [11.0]])
    angle = positions.numpy()[axis, 0] * frequency
    cos, sin = (table.numpy()[0] for table in rotary_table(positions, config))
    assert np.abs(cos - np.cos(np.tile(angle, 2))).max() <= 1e-5
    assert np.abs(sin - np.sin(np.tile(angle, 2))).max() <= 1e-5


def test_time_counts_frames_of_a_24_fps_video(config):
    """A latent lasts 4 frames, a row one; at 24 fps a latent is one unit, at 12 fps two."""
    for fps in (12.0, 24.0, 30.0):
        layout = Layout(3, 4, 6, fps, rows=5, row_offset=1)
        time, height, width = generation_positions(layout, 15010, config)
        assert torch.equal(time[:18], (15010 + torch.arange(3) * 24 / fps).repeat_interleave(6))
        assert height[:18].tolist() == [0, 0, 0, 1, 1, 1] * 3
        assert width[:18].tolist() == [0, 1, 2] * 6
        wanted = 15010 + torch.arange(1, 6, dtype=torch.float64) * 6 / fps
        assert (time[18:] - wanted).abs().max() <= 0.001
        assert not height[18:].any() and not width[18:].any()


def test_layout_tells_noisy_tokens_from_clean_ones():
    noisy = DROID.noisy_tokens(2)
    assert DROID.grid(2) == (9, 17, 20)
    assert len(noisy) == 3093
    clean = torch.nonzero(~noisy.bool()).flatten().tolist()
    assert clean == [*range(340), 3060]     # frame 0 and row 0
