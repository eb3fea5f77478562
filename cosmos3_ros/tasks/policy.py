# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""One action chunk for one observation."""
from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..model.branches import Branches
from ..model.cosmos3 import Cosmos3
from ..model.positions import TEMPORAL_COMPRESSION, Layout
from .canvas import Canvas, fit_canvas
from .noise import Ahead, gaussian
from .sampler import UniPC, flow_schedule, guide


@dataclass(frozen=True)
class PolicyRecipe:
    """How a policy checkpoint was trained to be asked.

    `num_frames`: frames predicted, the observed one included; rows of actions as many.
    `fps`: of frames and rows. `tier`: canvas tier (see `canvas`). `guidance` applies where the
    integer timestep lies strictly within `guidance_interval`. `action_width`: channels in use.
    `action_offset`: frames by which row 0 lies after frame 0; 0 where row 0 is the state.
    """

    num_frames: int = 33
    fps: float = 15.0
    tier: int = 480
    steps: int = 4
    shift: float = 5.0
    guidance: float = 3.0
    guidance_interval: tuple[float, float] = (960.0, 1001.0)
    domain: int = 8
    action_width: int = 8
    action_offset: int = 0

    def check(self, model: Cosmos3) -> None:
        """Raise ValueError unless the checkpoint can be asked in this way."""
        config = model.config
        for name, wanted, found in (
                ('action width', self.action_width, config.action_dim if config.action_gen else 0),
                ('domain', self.domain + 1, config.num_embodiment_domains)):
            if wanted > found:
                raise ValueError(f'checkpoint {model.name}: the recipe needs {name} {wanted} and '
                                 f'the checkpoint has {found}; wanted a policy checkpoint of the '
                                 'same embodiment')


@dataclass(frozen=True)
class PolicyRequest:
    """An observation in the network's terms.

    `picture`: uint8 [H, W, 3] RGB. `prompt`: text of the conditional branch, '' for none.
    `state`: float32 [action_width], the clean row 0.
    """

    picture: np.ndarray
    prompt: str
    state: np.ndarray
    seed: int
    recipe: PolicyRecipe = PolicyRecipe()


@dataclass(frozen=True)
class PolicyResult:
    """`actions`: float32 [num_frames - 1, action_width], rows 1 and on in the network's terms.

    `forwards`: passes through the generation tower that it took.
    """

    actions: np.ndarray
    seed: int
    forwards: int


@dataclass(frozen=True)
class _Inputs:
    """What a request needs on the device, still in host memory."""

    canvas: Canvas
    layout: Layout
    noise: Future[Tensor]   # [C, T, h, w] fp32, drawn while the picture is encoded
    rows: Tensor            # [R, action_dim] fp32: state, then noise
    token_ids: tuple[list[int], list[int]]


def policy(model: Cosmos3, request: PolicyRequest) -> Generator[None, None, PolicyResult]:
    """Sample the actions of a request; yields after the encoding, in and after every step.

    The picture, the prompt and the noise are prepared in the calling thread; the generator that
    is returned does the rest on the device. Raises ValueError for a state of another width, or a
    checkpoint that lacks what the recipe needs.
    """
    return _sample(model, request, _prepare(model, request))


def _prepare(model: Cosmos3, request: PolicyRequest) -> _Inputs:
    recipe = request.recipe
    recipe.check(model)
    if request.state.shape != (recipe.action_width,):
        raise ValueError(f'state: shape {request.state.shape}, wanted ({recipe.action_width},)')
    canvas = fit_canvas(request.picture, recipe.tier)
    frames = (recipe.num_frames - 1) // TEMPORAL_COMPRESSION + 1
    layout = Layout(frames, *canvas.latent_size, fps=recipe.fps, clean_frames=(0,),
                    rows=recipe.num_frames, clean_rows=(0,), row_offset=recipe.action_offset)
    config = model.config
    noise = _AHEAD.draw(request.seed, (config.latent_channel, frames, layout.height,
                                       layout.width))
    rows = gaussian(request.seed, (recipe.num_frames, config.action_dim))
    rows[:, recipe.action_width:] = 0
    rows[0, :recipe.action_width] = torch.from_numpy(request.state)
    return _Inputs(canvas, layout, noise, rows, (model.tokenizer.encode(request.prompt),
                                                 model.tokenizer.encode('')))


_AHEAD = Ahead()


def _sample(model: Cosmos3, request: PolicyRequest,
            inputs: _Inputs) -> Generator[None, None, PolicyResult]:
    observed = model.vae.encode_frame(inputs.canvas.pixels(model.device))
    with model.branches(inputs.token_ids, inputs.layout) as both:
        yield
        return (yield from _denoise(model, request, inputs, observed, both))


def _denoise(model: Cosmos3, request: PolicyRequest, inputs: _Inputs, observed: Tensor,
             both: Branches) -> Generator[None, None, PolicyResult]:
    recipe, device = request.recipe, model.device
    video, rows = inputs.noise.result().to(device), inputs.rows.to(device)
    video[:, :1] = observed[:, :, :inputs.layout.height, :inputs.layout.width]

    sigmas, timesteps = flow_schedule(recipe.steps, recipe.shift)
    solver, forwards = UniPC(sigmas), 0
    for timestep in timesteps:
        guided = recipe.guidance_interval[0] < timestep < recipe.guidance_interval[1]
        branches = both if guided else both.first()
        velocities = yield from _velocities(model, branches, video, rows, timestep, recipe)
        state = solver.step(guide(velocities, recipe.guidance), _pack(video, rows))
        frame, row = video[:, :1], rows[:1]
        video, rows = _unpack(state, video, rows)
        video[:, :1], rows[:1] = frame, row     # the solver keeps them up to rounding alone
        forwards += len(branches.memories)
        yield
    return PolicyResult(rows[1:, :recipe.action_width].cpu().numpy(), request.seed, forwards)


def _velocities(model: Cosmos3, branches: Branches, video: Tensor, rows: Tensor, timestep: int,
                recipe: PolicyRecipe) -> Generator[None, None, list[Tensor]]:
    """Flat velocity of video and rows by branch, zero in the channels the embodiment lacks."""
    velocities = yield from model.transformer.velocity(branches, video, timestep, rows,
                                                       recipe.domain)
    for _, row_velocity in velocities:
        row_velocity[:, recipe.action_width:] = 0
    return [_pack(*velocity) for velocity in velocities]


def _pack(video: Tensor, rows: Tensor) -> Tensor:
    return torch.cat([video.flatten(), rows.flatten()])


def _unpack(state: Tensor, video: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    flat_video, flat_rows = state.split([video.numel(), rows.numel()])
    return flat_video.view_as(video), flat_rows.view_as(rows)
