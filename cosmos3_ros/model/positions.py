# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Positions of text, vision and action tokens, and their rotary tables.

Positions are fp32 throughout: bf16 cannot count past 256, and the time axis starts at 15000.
The order of the fp32 operations follows the reference, whose rounding is visible at 15000.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .config import TransformerConfig

TEMPORAL_COMPRESSION = 4    # frames a latent frame stands for, of the VAE


@dataclass(frozen=True)
class Layout:
    """Shape of one generation sequence: a latent video, then action rows.

    `frames`, `height`, `width`: the latent's own sizes. `clean_frames` and `clean_rows` are
    given, not denoised. `fps`: of the video and of the rows. `row_offset`: frames by which row 0
    lies after frame 0 (0 when row 0 is the present state). `first_frame`: index in its video of
    the first latent frame.
    """

    frames: int
    height: int
    width: int
    fps: float
    clean_frames: tuple[int, ...] = ()
    rows: int = 0
    clean_rows: tuple[int, ...] = ()
    row_offset: int = 0
    first_frame: int = 0

    def grid(self, patch: int) -> tuple[int, int, int]:
        """Tokens along time, height and width; odd latent sizes are padded up."""
        return self.frames, -(-self.height // patch), -(-self.width // patch)

    def tokens(self, patch: int) -> int:
        """Vision tokens and action rows."""
        frames, height, width = self.grid(patch)
        return frames * height * width + self.rows

    def noisy_tokens(self, patch: int) -> Tensor:
        """[N] bool: tokens that are denoised."""
        frames, height, width = self.grid(patch)
        noisy_frames = torch.ones(frames, dtype=torch.bool)
        noisy_frames[list(self.clean_frames)] = False
        noisy_rows = torch.ones(self.rows, dtype=torch.bool)
        noisy_rows[list(self.clean_rows)] = False
        return torch.cat([noisy_frames.repeat_interleave(height * width), noisy_rows])


def text_positions(length: int) -> Tensor:
    """[3, length] fp32: the same count on the time, height and width axes."""
    return torch.arange(length, dtype=torch.float32).expand(3, -1)


def generation_positions(layout: Layout, start: int, config: TransformerConfig) -> Tensor:
    """[3, N] fp32 positions of the vision tokens, then of the action rows.

    `start`: time position of frame 0.
    """
    base = config.base_fps / TEMPORAL_COMPRESSION
    return torch.cat([_vision(layout, start, base, config), _rows(layout, start, base)], dim=1)


def _vision(layout: Layout, start: int, base: float, config: TransformerConfig) -> Tensor:
    frames, height, width = layout.grid(config.latent_patch_size)
    index = torch.arange(frames, dtype=torch.float32) + layout.first_frame
    time = index / (layout.fps / TEMPORAL_COMPRESSION) * base + start
    rows = torch.arange(height, dtype=torch.float32)
    columns = torch.arange(width, dtype=torch.float32)
    return torch.stack(torch.meshgrid(time, rows, columns, indexing='ij')).flatten(1)


def _rows(layout: Layout, start: int, base: float) -> Tensor:
    index = torch.arange(layout.rows, dtype=torch.float32) + layout.row_offset
    time = index / layout.fps * base + start
    return torch.stack([time, torch.zeros_like(time), torch.zeros_like(time)])


def rotary_table(positions: Tensor, config: TransformerConfig) -> tuple[Tensor, Tensor]:
    """cos and sin, each [N, head_dim] fp32, of [3, N] positions.

    Interleaved mRoPE: of every three frequencies the first turns with time, the second with
    height and the third with width, until an axis has its share; time takes the rest.
    """
    half = config.head_dim // 2
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    inverse = (1.0 / config.rope_theta**exponent).to(positions.device)
    angles = positions.float()[..., None] * inverse             # [3, N, half]
    axis = torch.zeros(half, dtype=torch.long, device=positions.device)
    for index in (1, 2):
        axis[index:3 * config.rope_axes_dim[index]:3] = index
    angles = angles.gather(0, axis.expand(1, angles.shape[1], -1))[0]
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()
