# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""One forward, one frame and one sampling schedule by diffusers' own modules."""
from diffusers import UniPCMultistepScheduler
from diffusers.pipelines.cosmos.pipeline_cosmos3_omni import (
    get_3d_mrope_ids_text_tokens,
    get_3d_mrope_ids_vae_tokens,
)
import numpy as np
import torch


def assert_close(value, wanted, tolerance):
    """Largest error within `tolerance` times the largest wanted value; returns it in scales."""
    value, wanted = torch.as_tensor(value).float(), torch.as_tensor(wanted).float()
    assert value.shape == wanted.shape
    error = (value - wanted).abs().max() / wanted.abs().max()
    assert error <= tolerance, f'{error:.2e} of scale, wanted {tolerance:.0e}'
    return float(error)


def position_ids(config, text_length, grid, fps, rows, row_offset):
    """[3, N] of text, vision and rows; diffusers' pipeline knows row_offset 1 only."""
    text, start = get_3d_mrope_ids_text_tokens(text_length, 0, use_float_positions=True)
    common = {'temporal_offset': start + config.unified_3d_mrope_temporal_modality_margin,
              'fps': fps, 'base_fps': float(config.base_fps)}
    vision, _ = get_3d_mrope_ids_vae_tokens(*grid, temporal_compression_factor=4, **common)
    parts = [text, vision]
    if rows:
        parts.append(get_3d_mrope_ids_vae_tokens(
            rows, 1, 1, temporal_compression_factor=1, base_temporal_compression_factor=4,
            start_frame_offset=row_offset, **common)[0])
    return torch.cat(parts, 1)


@torch.no_grad()
def forward(transformer, token_ids, layout, video, timestep, rows=None, domain=0):
    """Velocities of a video [C, T, H, W] and of rows [R, action_dim] in a `Layout`."""
    length, frames = len(token_ids), video.shape[1]
    grid = frames, -(-video.shape[2] // 2), -(-video.shape[3] // 2)
    stride = grid[1] * grid[2]
    end = length + frames * stride
    count = 0 if rows is None else len(rows)
    noisy = _noisy(frames, layout.clean_frames)
    noisy_tokens = (length + noisy[:, None] * stride + torch.arange(stride)).flatten()
    action = {} if rows is None else _action(rows, layout.clean_rows, end, timestep, domain)
    out = transformer(
        input_ids=torch.tensor(token_ids), text_indexes=torch.arange(length),
        position_ids=position_ids(transformer.config, length, grid, layout.fps, count,
                                  layout.row_offset),
        und_len=length, sequence_length=end + count, vision_tokens=[video[None]],
        vision_token_shapes=[grid], vision_sequence_indexes=torch.arange(length, end),
        vision_mse_loss_indexes=noisy_tokens, vision_noisy_frame_indexes=[noisy],
        vision_timesteps=torch.full((len(noisy_tokens),), timestep), **action)
    return out.sample[0][0], None if rows is None else out.action[0]


def _noisy(count, clean):
    return torch.tensor([i for i in range(count) if i not in clean], dtype=torch.long)


def _action(rows, clean_rows, start, timestep, domain):
    noisy = _noisy(len(rows), clean_rows)
    return {
        'action_tokens': [rows], 'action_token_shapes': [(len(rows), 1, 1)],
        'action_sequence_indexes': torch.arange(start, start + len(rows)),
        'action_mse_loss_indexes': start + noisy, 'action_noisy_frame_indexes': [noisy],
        'action_timesteps': torch.full((len(noisy),), timestep),
        'action_domain_ids': [torch.tensor([domain])]}


def scheduler(steps, shift):
    """diffusers' UniPC on the native flow schedule, sigmas given."""
    made = UniPCMultistepScheduler(prediction_type='flow_prediction', use_flow_sigmas=True,
                                   flow_shift=shift)
    made.set_timesteps(steps, sigmas=np.linspace(1 - 1 / 1000, 0, steps + 1)[:-1])
    return made


@torch.no_grad()
def encode(vae, clip):
    """Latents [C, T', H', W'] of a clip [3, T, H, W]: (mode - mean) / std."""
    mean, std = (torch.tensor(values).view(-1, 1, 1, 1)
                 for values in (vae.config.latents_mean, vae.config.latents_std))
    return (vae.encode(clip[None]).latent_dist.mode()[0] - mean) / std
