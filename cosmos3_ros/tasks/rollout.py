# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A video of the future, window after window, each latent decoded as soon as it is final."""
from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..model.branches import Branches, KeyValues
from ..model.cosmos3 import Cosmos3
from ..model.history import History
from ..model.job import meanwhile
from ..model.positions import TEMPORAL_COMPRESSION, Layout
from ..model.recordings import Recordings
from ..model.upload import Download
from ..model.vae import SPATIAL_COMPRESSION, StreamingDecoder
from .canvas import cover
from .denoise import denoise
from .limits import check_ranges, check_window, prompt_ids

Mode = Literal['kv', 'chained', 'clip']


@dataclass(frozen=True)
class RolloutRecipe:
    """How a video is made; the defaults are those of the Edge checkpoint's card.

    Sizes in pixels, `window`, `overlap`, `history` and `anchor` in latents (one frame, then four
    frames each). `mode`:
    'kv' keeps keys and values of the `anchor` first and the `history` newest latents;
    'chained' repeats the last `overlap` latents clean at the start of the next window;
    'clip' makes one window of all frames. `guidance` 1 leaves the negative prompt out.
    Raises ValueError for values that cannot be, or that would hold up other tasks.
    """

    mode: Mode = 'kv'
    width: int = 832
    height: int = 480
    fps: float = 24.0
    window: int = 8
    overlap: int = 2
    history: int = 16
    anchor: int = 1
    steps: int = 20
    guidance: float = 6.0
    shift: float = 12.0

    def __post_init__(self) -> None:
        for name, value in (('width', self.width), ('height', self.height)):
            if value < SPATIAL_COMPRESSION or value % SPATIAL_COMPRESSION:
                raise ValueError(f'{name} is {value}, wanted a multiple of {SPATIAL_COMPRESSION}')
        if self.mode not in ('kv', 'chained', 'clip'):
            raise ValueError(f'mode is {self.mode!r}, wanted kv, chained or clip')
        if self.window < 1 or self.history < 0 or self.anchor < 0:
            raise ValueError('window must be at least 1, history and anchor at least 0; '
                             f'found {self.window}, {self.history}, {self.anchor}')
        if self.mode == 'chained' and not 0 < self.overlap < self.window:
            raise ValueError(f'overlap is {self.overlap}, wanted 1 to {self.window - 1}, less '
                             'than the window')
        check_ranges(fps=self.fps, steps=self.steps, guidance=self.guidance, shift=self.shift)
        check_window(self.window, self.height, self.width)

    @property
    def latent_size(self) -> tuple[int, int]:
        return self.height // SPATIAL_COMPRESSION, self.width // SPATIAL_COMPRESSION


@dataclass(frozen=True)
class Frame:
    """`image`: uint8 [H, W, 3] RGB. `index`: in the session; `window` and `latent`: its origin."""

    image: np.ndarray
    index: int
    window: int
    latent: int


@dataclass(frozen=True)
class _Coming:
    """Frames of a decoded latent on their way to the host; `decoder`: as it is after them."""

    images: Download
    decoder: StreamingDecoder


def to_images(pixels: Tensor) -> Tensor:
    """Decoded frames [3, F, H, W] in [-1, 1] -> uint8 [F, H, W, 3]."""
    return ((pixels + 1) * 127.5).round().byte().permute(1, 2, 3, 0)


class RolloutSession:
    """A video that can go on: everything of it stays on the device between requests.

    It changes by whole windows: one that is cancelled or fails leaves no trace. The video depends
    on the seed, the prompts and the recipe, not on how its frames were asked for.
    """

    def __init__(self, model: Cosmos3, prompt: str, negative_prompt: str, recipe: RolloutRecipe,
                 seed: int, picture: np.ndarray | None = None):
        """`picture`: uint8 [H, W, 3] RGB, frame 0 of the video; None for text alone.

        Raises ValueError for a prompt that is too long.
        """
        self.recipe = recipe
        self.seed = seed
        self.prompt = prompt            # of the window that was begun last
        self.latents = 0                # committed
        self.windows = 0                # committed
        self.frames = 0                 # emitted
        self._ids = prompt_ids(model.tokenizer, prompt)
        self._negative_ids = prompt_ids(model.tokenizer, negative_prompt, 'negative_prompt')
        self._steered = 0, prompt, self._ids    # the first window of a prompt, and the prompt
        self._steerable = 0             # first window that a new prompt reaches
        self._model = model
        self._noise = torch.Generator().manual_seed(seed)
        self._picture = None if picture is None else cover(picture, recipe.height, recipe.width)
        self._pending: list[Tensor] = []    # committed latents that are not handed out yet
        self._coming: _Coming | None = None     # the first of them
        self._overlap: Tensor | None = None
        self._memories: list[History] | None = None
        self._starts: list[int] = []        # time position of frame 0, by branch
        self._recordings = Recordings()     # of passes over the memories
        self._decoder = StreamingDecoder(model.vae)

    @staticmethod
    def device_bytes(model: Cosmos3, recipe: RolloutRecipe, text_tokens: int) -> int:
        """Device memory that a session takes while it is open (bytes).

        `text_tokens`: of all prompts together. Both branches' keys and values, which kv keeps and
        the other modes take while they make a window, and the decoder's feature cache; the
        working memory of a step comes on top.
        """
        height, width = recipe.latent_size
        per_token = KeyValues.bytes_per_token(model.config, model.dtype)
        latents = recipe.window
        if recipe.mode == 'kv':
            latents += recipe.anchor + recipe.history
        layout = Layout(latents, height, width, recipe.fps)
        branches = 1 if recipe.guidance == 1 else 2
        tokens = text_tokens + branches * layout.tokens(model.config.latent_patch_size)
        return tokens * per_token + StreamingDecoder.device_bytes(model.vae, height, width)

    @property
    def fps(self) -> float:
        return self.recipe.fps

    @property
    def window_frames(self) -> int:
        """Frames that the next window adds."""
        latents = self.recipe.window
        if not self.frames:             # also if the first window is made: it is still to come
            return TEMPORAL_COMPRESSION * (latents - 1) + 1
        repeated = self.recipe.overlap if self.recipe.mode == 'chained' else 0
        return TEMPORAL_COMPRESSION * (latents - repeated)

    def steer(self, prompt: str) -> int:
        """Change the prompt from the next window on; returns that window's index.

        A window that was begun keeps its prompt, also when it is cancelled and made again.
        Raises ValueError for a prompt that is too long.
        """
        ids = prompt_ids(self._model.tokenizer, prompt)
        window = self._steerable
        self._steered = window, prompt, ids
        return window

    def run(self, frames: int, emit: Callable[[Frame], None]) -> Generator[None, None, None]:
        """Make `frames` more frames; yields within and after every step and every decoded latent.

        Raises ValueError unless the frames end with a latent: 4 n + 1 in all.
        """
        end = self.frames + frames
        if frames < 1 or (end - 1) % TEMPORAL_COMPRESSION:
            raise ValueError(f'frames is {frames}, wanted 4 n + 1 in a new session and 4 n in one '
                             f'that goes on (this one has {self.frames})')
        try:
            while self.frames + len(self._coming.images if self._coming else ()) < end:
                waits = len(self._pending) > bool(self._coming)
                work = self._decode() if waits else self._next_window(frames)
                yield from meanwhile(work, partial(self._hand_out, emit))
                yield
            self._hand_out(emit)
        finally:
            self._coming = None         # decoded anew, if it was not handed out

    def _next_window(self, frames: int) -> Generator[None, None, None]:
        """Make the next window, with the prompt that it was steered to."""
        first, prompt, ids = self._steered
        self._steerable = self.windows + 1
        if first <= self.windows:
            self.prompt, self._ids = prompt, ids
        try:
            yield from self._window(self._size(frames))
        finally:
            self._steerable = self.windows

    def _size(self, frames: int) -> int:
        if self.recipe.mode == 'clip':
            return (frames - 1) // TEMPORAL_COMPRESSION + 1
        return self.recipe.window

    def _window(self, size: int) -> Generator[None, None, None]:
        """Denoise one window and commit it."""
        noise = torch.Generator()
        noise.set_state(self._noise.get_state())
        video = self._start_video(noise, size)
        yield
        prompts = self._prompts()
        for ids in prompts:             # a new one takes as long as a denoise step, or longer
            self._model.prefix(ids)
            yield
        first, clean = self._placement()
        layout = Layout(size, *self.recipe.latent_size, self.recipe.fps,
                        clean_frames=tuple(range(clean)), first_frame=first)
        recipe = self.recipe
        with self._branches(prompts, layout) as (memories, branches):
            video = yield from denoise(self._model, branches, video, steps=recipe.steps,
                                       shift=recipe.shift, guidance=recipe.guidance)
        if memories is not None:
            yield from self._write(memories, layout, video)
        # nothing below yields: the commit is whole or not at all
        for memory in memories or ():
            memory.commit(size)
        self._memories, self._noise = memories, noise
        new = video if self.recipe.mode != 'chained' or not self.windows else (
            video[:, self.recipe.overlap:])
        self._overlap = video[:, -self.recipe.overlap:]
        self._pending = list(new.split(1, dim=1))
        self.latents += len(self._pending)
        self.windows += 1

    def _start_video(self, noise: torch.Generator, size: int) -> Tensor:
        """Noise with the clean frames in place, fp32 [C, T, h, w]."""
        shape = (self._model.config.latent_channel, size, *self.recipe.latent_size)
        video = torch.randn(shape, generator=noise).to(self._model.device)
        if self.windows and self.recipe.mode == 'chained':
            video[:, :self.recipe.overlap] = self._overlap
        elif not self.windows and self._picture is not None:
            video[:, :1] = self._model.vae.encode_frame(self._picture.to(self._model.device))
        return video

    def _placement(self) -> tuple[int, int]:
        """Time index of the window's first latent, and how many of its latents are clean."""
        if not self.windows:
            return 0, int(self._picture is not None)
        return (0, self.recipe.overlap) if self.recipe.mode == 'chained' else (self.latents, 0)

    def _prompts(self) -> list[list[int]]:
        """Token ids for each branch."""
        return [self._ids, self._negative_ids][:1 if self.recipe.guidance == 1 else 2]

    @contextmanager
    def _branches(self, prompts: list[list[int]],
                  layout: Layout) -> Iterator[tuple[list[History] | None, Branches]]:
        """The memories that the window is added to, if any, and the branches that make it."""
        model = self._model
        if self.recipe.mode != 'kv':
            with model.branches(prompts, layout) as branches:
                yield None, branches
        else:
            memories = self._prepare_memories(prompts, layout)
            yield memories, model.transformer.branches(memories, layout, self._starts,
                                                       self._recordings)

    def _prepare_memories(self, prompts: list[list[int]], layout: Layout) -> list[History]:
        """The memory of each branch after its present prompt; the first time positions start."""
        prefixes = [self._model.prefix(ids) for ids in prompts]
        if self._memories is None:
            recipe, patch = self.recipe, self._model.config.latent_patch_size
            tokens = replace(layout, frames=1).tokens(patch)
            self._starts = [self._model.transformer.start(prefix) for prefix in prefixes]
            return [History(prefix, tokens, recipe.window, recipe.history, recipe.anchor)
                    for prefix in prefixes]
        return [memory if memory.prefix is prefix else memory.with_prompt(prefix)
                for memory, prefix in zip(self._memories, prefixes, strict=True)]

    def _write(self, memories: list[History], layout: Layout,
               video: Tensor) -> Generator[None, None, None]:
        """Pass the finished latents once more, without a time embedding, for their keys."""
        clean = replace(layout, clean_frames=tuple(range(layout.frames)))
        transformer = self._model.transformer
        yield from transformer.write(transformer.branches(memories, clean, self._starts), video)
        yield

    def _decode(self) -> Generator[None, None, None]:
        """Decode the next latent, behind the one whose frames are on their way."""
        latent = self._pending[bool(self._coming)]
        decoder = copy.copy(self._coming.decoder if self._coming else self._decoder)
        pixels = yield from decoder.decoding(latent)
        self._coming = _Coming(Download(to_images(pixels)), decoder)

    def _hand_out(self, emit: Callable[[Frame], None]) -> None:
        """Hand out the frames that are on their way, if any: those of a latent at once."""
        if self._coming is None:
            return
        images = self._coming.images.get()
        latent, first = self._decoder.latents, self.frames
        self._pending.pop(0)
        self._decoder, self._coming = self._coming.decoder, None
        self.frames += len(images)
        for index, image in enumerate(images, first):
            emit(Frame(image, index, self.windows - 1, latent))
