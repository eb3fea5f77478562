# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""From noise to a finished latent video, the part that all video tasks share."""
from __future__ import annotations

from collections.abc import Generator

from torch import Tensor

from ..model.branches import Branches
from ..model.cosmos3 import Cosmos3
from .sampler import UniPC, flow_schedule, guide


def denoise(model: Cosmos3, branches: Branches, video: Tensor, *, steps: int,
            shift: float, guidance: float, rows: Tensor | None = None,
            domain: int = 0) -> Generator[None, None, Tensor]:
    """Sample a video [C, T, h, w] from noise with its clean frames in place; yields in each step.

    `branches`: conditional, and unconditional where there is guidance. `rows`: clean action rows
    [R, action_dim] that drive the video.
    """
    sigmas, timesteps = flow_schedule(steps, shift)
    solver = UniPC(sigmas)
    clean = list(branches.layout.clean_frames)
    for timestep in timesteps:
        velocities = yield from model.transformer.velocity(branches, video, timestep, rows, domain)
        # the velocity of clean frames is zero, so the solver changes them by rounding alone
        step = solver.step(guide([velocity for velocity, _ in velocities], guidance), video)
        for frame in clean:
            step[:, frame] = video[:, frame]
        video = step
        yield
    return video
