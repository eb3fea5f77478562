# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a precision changes in the output: the same weights, noise and inputs in two of them."""
from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..droid.actions import joint_targets
from ..droid.observation import ARM_JOINTS
from ..model.cosmos3 import Cosmos3
from ..model.positions import TEMPORAL_COMPRESSION, Layout
from ..tasks.canvas import fit_canvas
from ..tasks.policy import PolicyRequest, policy
from ..tasks.rollout import Frame, RolloutSession
from ..tasks.sampler import flow_schedule
from .policy import ask_droid
from .report import Row
from .setting import Setting
from .video import NEGATIVE, PROMPT

REFERENCES = {'bf16': 'fp32', 'fp8': 'bf16'}


@dataclass(frozen=True)
class Outputs:
    """Of one precision, in host memory. `velocities`: (video, rows) of each of the chunk's steps.

    `actions`: [h, 8] joint targets; `frames`: [F, H, W, 3].
    """

    velocities: list[tuple[Tensor, Tensor]]
    actions: np.ndarray
    frames: np.ndarray


def measure(setting: Setting) -> list[Row]:
    """The precision against the next finer one; no rows for fp32."""
    against = REFERENCES.get(setting.precision)
    if against is None:
        return []
    coarse = _outputs(setting)
    reference = replace(setting, precision=against, models={})
    fine = _outputs(reference)
    work, asked, clip = f'fidelity_{setting.precision}', _ask(setting), setting.sizes.fidelity
    forward = (f'against {against}, each forward at the timesteps of '
               f'{asked.recipe.steps} steps, {asked.recipe.num_frames} frames')
    pairs = list(zip(coarse.velocities, fine.velocities, strict=True))
    joints = np.abs(coarse.actions - fine.actions)[:, :ARM_JOINTS].max()

    def row(metric: str, unit: str, runs: list[float], shape: str) -> Row:
        return Row(work, shape, setting.precision, metric, unit, tuple(runs))
    return [
        row('video_rel_l2', '%', [100 * _relative(a[0], b[0]) for a, b in pairs], forward),
        row('action_rel_l2', '%', [100 * _relative(a[1], b[1]) for a, b in pairs], forward),
        row('joint_difference_rad', 'rad', [float(joints)],
            f'against {against}, largest in a chunk of {len(coarse.actions)} rows'),
        row('psnr_db', 'dB', [_psnr(a, b) for a, b in zip(coarse.frames, fine.frames)],
            f'against {against}, each of {len(fine.frames)} frames {clip.width}x{clip.height}, '
            f'{clip.steps} steps')]


def _relative(value: Tensor, wanted: Tensor) -> float:
    return float((value - wanted).norm() / wanted.norm())


def _psnr(value: np.ndarray, wanted: np.ndarray) -> float:
    """Of 8-bit pictures in dB; equal ones count as if one level in one value differed."""
    squares = (value.astype(np.float64) - wanted)**2
    return float(10 * np.log10(255**2 / max(squares.mean(), 1 / squares.size)))


def _ask(setting: Setting) -> PolicyRequest:
    return ask_droid(setting)(0)


def _outputs(setting: Setting) -> Outputs:
    asked, model = _ask(setting), setting.model('policy')
    velocities = setting.run(_velocities(model, asked))
    chunk = setting.run(policy(model, asked))
    frames: list[Frame] = []
    session = RolloutSession(setting.model('base'), PROMPT, NEGATIVE, setting.sizes.fidelity, 0)
    setting.run(session.run(setting.sizes.fidelity_frames, frames.append))
    return Outputs(velocities, joint_targets(chunk.actions),
                   np.stack([frame.image for frame in frames]))


def _velocities(model: Cosmos3, asked: PolicyRequest
                ) -> Generator[None, None, list[tuple[Tensor, Tensor]]]:
    """Of the same noise at every timestep of the chunk's schedule."""
    recipe, draw = asked.recipe, torch.Generator().manual_seed(0)
    layout = Layout((recipe.num_frames - 1) // TEMPORAL_COMPRESSION + 1,
                    *fit_canvas(asked.picture, recipe.tier).latent_size, fps=recipe.fps,
                    clean_frames=(0,), rows=recipe.num_frames, clean_rows=(0,),
                    row_offset=recipe.action_offset)
    video = torch.randn(model.config.latent_channel, layout.frames, layout.height, layout.width,
                        generator=draw).to(model.device)
    rows = torch.randn(layout.rows, model.config.action_dim, generator=draw).to(model.device)
    found = []
    with model.branches([model.tokenizer.encode(asked.prompt)], layout) as branches:
        for timestep in flow_schedule(recipe.steps, recipe.shift)[1]:
            velocity, = yield from model.transformer.velocity(branches, video, timestep, rows,
                                                              recipe.domain)
            video_velocity, row_velocity = (part.float().cpu() for part in velocity)
            found.append((video_velocity, row_velocity[:, :recipe.action_width]))
    return found
