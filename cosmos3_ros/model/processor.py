# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Questions to token ids and pictures, through the checkpoint's own processor.

Chat template, tokenizer, picture and video processing are those of transformers; here their
output is cut into what the engine handles: text, and one span per picture or video frame.
Pictures do not pass through the processor where a PatchCutter does the same to them.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
import threading
from typing import Any

import numpy as np
from PIL import Image
import torch
from torch import Tensor
from transformers import AutoProcessor, GenerationConfig, ProcessorMixin

from .config import CheckpointError
from .pictures import PatchCutter
from .vision import Grid

THINK = ('<think>', '</think>')
AT_ONCE = 2     # questions; more would end later, and keep the engine's thread from the interpreter


@dataclass(frozen=True)
class Video:
    """`frames`: uint8 [T, H, W, 3] RGB, `fps` of them a second."""

    frames: np.ndarray
    fps: float


@dataclass(frozen=True)
class Span:
    """Tokens `start` to `end` of a prompt that show one picture or video frame.

    `pixels`: uint8 [H, W, 3], to be cut, or fp32 [rows * columns, values] patches; `key`: a
    negative number made of the content.
    """

    start: int
    end: int
    grid: Grid
    pixels: Tensor
    key: int


@dataclass(frozen=True)
class Prompt:
    """A question as the understanding tower reads it.

    `ids`: int64 [N]. `keys`: int64 [N], equal where the content is equal: ids of text, keys of
    spans. `positions`: int64 [3, N] on the time, height and width axes; text that follows counts
    on from `next_position` on all three. `thinking`: the answer starts inside the thinking.
    """

    ids: np.ndarray
    keys: np.ndarray
    positions: Tensor
    next_position: int
    spans: tuple[Span, ...]
    thinking: bool


class Processor:
    """The checkpoint's processor, safe to call from any thread."""

    def __init__(self, processor: ProcessorMixin, eos: Sequence[int]):
        self._processor = processor
        self._lock = threading.Lock()       # the processor is not safe to call from many threads
        self._turns = threading.Semaphore(AT_ONCE)
        self.cutter = PatchCutter.of(processor.image_processor)
        tokenizer = processor.tokenizer
        self.tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer     # a tenth of the time of its wrapper
        self.eos = frozenset([*eos, tokenizer.eos_token_id]) - {None}
        self._media_tokens = (processor.image_token, processor.video_token)
        self.think, self.end_think = (self._special(text) for text in THINK)

    @classmethod
    def from_folder(cls, folder: Path) -> Processor:
        """Load from a checkpoint's root; raises CheckpointError for a missing file."""
        for name in ('tokenizer.json', 'chat_template.jinja', 'generation_config.json'):
            if not (folder / name).is_file():
                raise CheckpointError(f'{folder / name}: no such file; a checkpoint with a vision '
                                      'encoder has one')
        try:
            processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise CheckpointError(f'{folder}: no processor that transformers can load: '
                                  f'{error}') from error
        eos = GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id
        return cls(processor, [eos] if isinstance(eos, int) else eos or [])

    def encode(self, text: str, pictures: Sequence[np.ndarray] = (),
               videos: Sequence[Video] = (), system: str = '', thinking: bool = True) -> Prompt:
        """One user turn: pictures (uint8 [H, W, 3] RGB), then videos, then the text.

        Raises ValueError for a text that holds a picture's token, or what the processor refuses.
        """
        for token in self._media_tokens:
            if token in text or token in system:
                raise ValueError(f'the text holds {token}, which stands for a picture; take it out')
        content = [*({'type': 'image'} for _ in pictures), *({'type': 'video'} for _ in videos),
                   {'type': 'text', 'text': text}]
        messages: list[dict[str, Any]] = [{'role': 'user', 'content': content}]
        if system:
            messages.insert(0, {'role': 'system', 'content': [{'type': 'text', 'text': system}]})
        cut = self.cutter is not None and not videos
        with self._turns if cut else self._lock:
            written = self._processor.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=thinking)
            if cut:
                return self._cut(written, pictures)
            return self._processed(written, pictures, videos)

    def _cut(self, written: str, pictures: Sequence[np.ndarray]) -> Prompt:
        """The prompt of a text with a placeholder for each picture."""
        pixels = [self.cutter.resized(picture) for picture in pictures]
        grids = [self.cutter.grid(one) for one in pixels]
        ids = np.array(self._backend.encode(written).ids)
        repeats = np.ones(len(ids), np.int64)
        repeats[ids == self._processor.image_token_id] = [
            rows * columns // self.cutter.merge**2 for rows, columns in grids]
        ids = ids.repeat(repeats)
        kinds = (ids == self._processor.image_token_id).astype(int).tolist()
        return self._prompt(ids, kinds, {1: zip(grids, pixels)})

    def _processed(self, written: str, pictures: Sequence[np.ndarray],
                   videos: Sequence[Video]) -> Prompt:
        """The same through the processor."""
        media: dict[str, Any] = {}
        if pictures:
            media['images'] = [Image.fromarray(picture) for picture in pictures]
        if videos:
            media['videos'] = [torch.from_numpy(np.ascontiguousarray(video.frames))
                               .permute(0, 3, 1, 2) for video in videos]
            media['video_metadata'] = [_metadata(video) for video in videos]
        batch = self._processor(text=[written], return_tensors='pt', return_mm_token_type_ids=True,
                                **media)
        frames = {1: _frames(batch.get('image_grid_thw'), batch.get('pixel_values')),
                  2: _frames(batch.get('video_grid_thw'), batch.get('pixel_values_videos'))}
        return self._prompt(batch['input_ids'][0].numpy(), batch['mm_token_type_ids'][0].tolist(),
                            frames)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        return self._backend.decode(ids, skip_special_tokens=True)

    def _prompt(self, ids: np.ndarray, kinds: Sequence[int],
                frames: Mapping[int, Iterator[tuple[Grid, Tensor]]]) -> Prompt:
        """`kinds`: of each token, 0 for text; `frames`: grids and pixels of the other kinds."""
        keys, spans, positions, place, start = ids.copy(), [], [], 0, 0
        merge = self._processor.image_processor.merge_size
        for kind, run in groupby(kinds):
            end = start + len(list(run))
            if kind == 0:
                positions.append(torch.arange(place, place + end - start).expand(3, -1))
                place += end - start
            else:
                grid, pixels = next(frames[kind])
                spans.append(Span(start, end, grid, pixels, _content_key(grid, pixels)))
                keys[start:end] = spans[-1].key
                rows, columns = (size // merge for size in grid)
                positions.append(_span_positions(rows, columns) + place)
                place += max(rows, columns)
            start = end
        return Prompt(ids, keys, torch.cat(positions, dim=1), place, tuple(spans),
                      self._opens_thinking(ids.tolist()))

    def _opens_thinking(self, ids: list[int]) -> bool:
        """Whether the last <think> of the prompt is still open."""
        marks = [i for i in ids if i in (self.think, self.end_think)]
        return bool(marks) and marks[-1] == self.think

    def _special(self, text: str) -> int | None:
        token = self.tokenizer.convert_tokens_to_ids(text)
        return None if token == self.tokenizer.unk_token_id else token


def _metadata(video: Video) -> dict[str, Any]:
    count = len(video.frames)
    return {'fps': video.fps, 'total_num_frames': count, 'duration': count / video.fps}


def _frames(grids: Tensor | None, pixels: Tensor | None) -> Iterator[tuple[Grid, Tensor]]:
    """Grid and patches of each picture, or of each frame of each video."""
    start = 0
    for frames, rows, columns in ([] if grids is None else grids.tolist()):
        for _ in range(frames):
            yield (rows, columns), pixels[start:start + rows * columns]
            start += rows * columns


@lru_cache(maxsize=64)
def _span_positions(rows: int, columns: int) -> Tensor:
    """[3, rows * columns]: one time, rows and columns counted from 0."""
    grid = torch.meshgrid(torch.zeros(1, dtype=torch.long), torch.arange(rows),
                          torch.arange(columns), indexing='ij')
    return torch.stack(grid).flatten(1)


def _content_key(grid: Grid, pixels: Tensor) -> int:
    """A negative 63-bit number, so that it is no token id."""
    digest = sha256(pixels.contiguous().numpy())    # processors have instructions for it
    digest.update(repr(grid).encode())
    return -1 - (int.from_bytes(digest.digest()[:8], 'little') >> 1)
