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
from .canvas import canvas_size, fit_canvas
from .denoise import denoise
from .limits import check_ranges, check_window, prompt_ids
from .rollout import Frame, to_images


@dataclass(frozen=True)
class DynamicsRecipe:
    """How actions become video; the defaults are those of the Edge card.

    `row_offset`: frames by which a chunk's row 0 lies after its frame 0; 0 where row 0 is the
    state. `tier`: canvas tier. `domain`: of the embodiment. Raises ValueError for values that
    cannot be, or that would hold up other tasks.
    """

    fps: float = 15.0
    tier: int = 480
    steps: int = 30
    shift: float = 10.0
    domain: int = 8
    row_offset: int = 0

    def __post_init__(self) -> None:
        check_ranges(fps=self.fps, steps=self.steps, shift=self.shift)


class DynamicsSession:
    """An imagined video that goes on with every chunk of actions.

    A chunk starts at the last frame of the one before, encoded anew: what a latent holds of its
    last frame cannot be told from the other three. One that is cancelled or fails ends at the
    last frame that was handed out, and leaves no trace before its first.
    """

    def __init__(self, model: Cosmos3, prompt: str, recipe: DynamicsRecipe, seed: int,
                 picture: np.ndarray):
        """`picture`: uint8 [H, W, 3] RGB, frame 0 of the video.

        Raises ValueError for a prompt that is too long.
        """
        self.seed = seed
        self.windows = 0
        self.frames = 0
        self.prompt = prompt
        self._ids = prompt_ids(model.tokenizer, prompt)
        self._model = model
        self._recipe = recipe
        self._noise = torch.Generator().manual_seed(seed)
        self._picture = picture

    @property
    def fps(self) -> float:
        return self._recipe.fps

    def run(self, rows: np.ndarray, emit: Callable[[Frame], None]) -> Generator[None, None, None]:
        """Imagine one chunk: clean rows, float32 [R, width]; yields as rollouts do.

        Raises ValueError as `span` does.
        """
        recipe, model = self._recipe, self._model
        latents = _latents(self.span(rows))
        canvas = fit_canvas(self._picture, recipe.tier)
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
        with model.branches([self._ids], layout) as branch:
            video = yield from denoise(model, branch, video, steps=recipe.steps,
                                       shift=recipe.shift, guidance=1.0, rows=padded,
                                       domain=recipe.domain)
        yield from self._decode(video, noise, emit)

    def span(self, rows: np.ndarray) -> int:
        """Frames of a chunk, the one that it starts at included.

        Raises ValueError unless they are 4 n + 1, or for rows that are too wide or too many.
        """
        frames = len(rows) + self._recipe.row_offset
        if rows.ndim != 2 or (frames - 1) % TEMPORAL_COMPRESSION or frames < 2:
            raise ValueError(f'action rows: found shape {rows.shape} for {frames} frames, wanted '
                             '[R, width] that spans 4 n + 1 frames')
        if rows.shape[1] > self._model.config.action_dim or not np.isfinite(rows).all():
            raise ValueError(f'action rows: wanted at most {self._model.config.action_dim} '
                             f'channels, all finite; found {rows.shape[1]}')
        check_window(_latents(frames), *canvas_size(*self._picture.shape[:2], self._recipe.tier))
        return frames

    def _decode(self, video: torch.Tensor, noise: torch.Generator,
                emit: Callable[[Frame], None]) -> Generator[None, None, None]:
        """Hand out the frames of a chunk; the session goes on from the last of them.

        `noise`: where that of the next chunk begins.
        """
        decoder = StreamingDecoder(self._model.vae)
        window = self.windows
        for latent in video.split(1, dim=1):
            images = Download(to_images((yield from decoder.decoding(latent)))).get()
            if window == 0 or decoder.latents > 1:      # else the last frame of the chunk before
                # nothing here yields: what is handed out counts, whatever becomes of the rest
                self._picture, self._noise, self.windows = images[-1], noise, window + 1
                first = self.frames
                self.frames += len(images)
                for index, image in enumerate(images, first):
                    emit(Frame(image, index, window, decoder.latents - 1))
            yield


def _latents(frames: int) -> int:
    return (frames - 1) // TEMPORAL_COMPRESSION + 1
