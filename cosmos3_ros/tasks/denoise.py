# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""From noise to a finished latent video, the part that all video tasks share."""
from __future__ import annotations

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from ..model.cosmos3 import Cosmos3
from ..model.transformer import Branch
from .sampler import UniPC, flow_schedule, guide


def denoise(model: Cosmos3, branches: Sequence[Branch], video: Tensor, *, steps: int,
            shift: float, guidance: float, rows: Tensor | None = None,
            domain: int = 0) -> Generator[None, None, Tensor]:
    """Sample a video [C, T, h, w] from noise with its clean frames in place; yields each step.

    `branches`: conditional, and unconditional where there is guidance. `rows`: clean action rows
    [R, action_dim] that drive the video.
    """
    sigmas, timesteps = flow_schedule(steps, shift)
    solver = UniPC(sigmas)
    clean = list(branches[0].layout.clean_frames)
    for timestep in timesteps:
        time = torch.tensor([timestep], device=video.device)
        velocities = [model.transformer.velocity(branch, video, time, rows, domain)[0]
                      for branch in branches]
        # the velocity of clean frames is zero, so the solver changes them by rounding alone
        step = solver.step(guide(velocities, guidance), video)
        step[:, clean] = video[:, clean]
        video = step
        yield
    return video
