# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Forward dynamics: the video that given actions lead to, chunk after chunk."""
from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import torch

from ..model.cosmos3 import Cosmos3
from ..model.positions import TEMPORAL_COMPRESSION, Layout
from ..model.upload import Download
from ..model.vae import StreamingDecoder
from .canvas import fit_canvas
from .denoise import denoise
from .rollout import Frame, to_images


@dataclass(frozen=True)
class DynamicsRecipe:
    """How actions become video; the defaults are those of the Edge card.

    `row_offset`: frames by which a chunk's row 0 lies after its frame 0; 0 where row 0 is the
    state. `tier`: canvas tier. `domain`: of the embodiment.
    """

    fps: float = 15.0
    tier: int = 480
    steps: int = 30
    shift: float = 10.0
    domain: int = 8
    row_offset: int = 0


class DynamicsSession:
    """An imagined video that goes on with every chunk of actions.

    A chunk starts at the last frame of the one before, encoded anew: what a latent holds of its
    last frame cannot be told from the other three. A chunk that is cancelled leaves no trace.
    """

    def __init__(self, model: Cosmos3, prompt: str, recipe: DynamicsRecipe, seed: int,
                 picture: np.ndarray):
        """`picture`: uint8 [H, W, 3] RGB, frame 0 of the video."""
        self.seed = seed
        self.windows = 0
        self.frames = 0
        self.prompt = prompt
        self._model = model
        self._recipe = recipe
        self._noise = torch.Generator().manual_seed(seed)
        self._picture = picture

    @property
    def fps(self) -> float:
        return self._recipe.fps

    def run(self, rows: np.ndarray, emit: Callable[[Frame], None]) -> Generator[None, None, None]:
        """Imagine one chunk: clean rows, float32 [R, width]; yields as rollouts do.

        Raises ValueError unless the rows span 4 n + 1 frames, or if they are too wide.
        """
        recipe, model = self._recipe, self._model
        frames = len(rows) + recipe.row_offset
        self._check(rows, frames)
        canvas = fit_canvas(self._picture, recipe.tier)
        latents = (frames - 1) // TEMPORAL_COMPRESSION + 1
        layout = Layout(latents, *canvas.latent_size, fps=recipe.fps, clean_frames=(0,),
                        rows=len(rows), clean_rows=tuple(range(len(rows))),
                        row_offset=recipe.row_offset)
        noise = torch.Generator()
        noise.set_state(self._noise.get_state())
        video = torch.randn((model.config.latent_channel, latents, *canvas.latent_size),
                            generator=noise).to(model.device)
        observed = model.vae.encode_frame(canvas.pixels(model.device))
        video[:, :1] = observed[:, :, :layout.height, :layout.width]
        padded = torch.zeros(len(rows), model.config.action_dim, device=model.device)
        padded[:, :rows.shape[1]] = torch.from_numpy(rows)
        with model.branches([model.tokenizer.encode(self.prompt)], layout) as branch:
            video = yield from denoise(model, branch, video, steps=recipe.steps,
                                       shift=recipe.shift, guidance=1.0, rows=padded,
                                       domain=recipe.domain)
        last = yield from self._decode(video, emit)
        # nothing below yields: the chunk counts as a whole or not at all
        self._picture, self._noise = last, noise
        self.frames += frames - int(self.windows > 0)
        self.windows += 1

    def _decode(self, video: torch.Tensor,
                emit: Callable[[Frame], None]) -> Generator[None, None, np.ndarray]:
        """Hand out the frames of a chunk; returns the last one."""
        decoder = StreamingDecoder(self._model.vae)
        index = self.frames - int(self.windows > 0)     # frame 0 is the last of the chunk before
        for latent in video.split(1, dim=1):
            images = Download(to_images((yield from decoder.decoding(latent)))).get()
            for image in images:
                if index >= self.frames:
                    emit(Frame(image, index, self.windows, decoder.latents - 1))
                index += 1
            yield
        return images[-1]

    def _check(self, rows: np.ndarray, frames: int) -> None:
        if rows.ndim != 2 or (frames - 1) % TEMPORAL_COMPRESSION or frames < 2:
            raise ValueError(f'action rows: found shape {rows.shape} for {frames} frames, wanted '
                             '[R, width] that spans 4 n + 1 frames')
        if rows.shape[1] > self._model.config.action_dim or not np.isfinite(rows).all():
            raise ValueError(f'action rows: wanted at most {self._model.config.action_dim} '
                             f'channels, all finite; found {rows.shape[1]}')
