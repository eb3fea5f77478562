# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of the reasoner, and what it answers."""
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
import math

import numpy as np

from ..model.processor import Video

STOP_CHARACTERS = 1000      # of all stop strings: each token is compared with their starts


class QuestionError(ValueError):
    """A question that cannot be asked: names the field, what was found and wanted."""


class FinishReason(Enum):
    """Why an answer ended."""

    STOP = 'stop'               # an end token or a stop string
    LENGTH = 'length'           # max_tokens reached
    CANCELLED = 'cancelled'


@dataclass(frozen=True)
class Question:
    """One user turn: pictures, then videos, then the text.

    `pictures`: uint8 [H, W, 3] RGB each. `temperature`: 0 takes the likeliest token; `top_k`: 0
    is off; `top_p`: 1 is off. `stop`: strings that end the answer (not the thinking), at most
    1000 characters in all; they are not part of it. `max_tokens` counts the thinking too.
    """

    text: str
    pictures: tuple[np.ndarray, ...] = ()
    videos: tuple[Video, ...] = ()
    system: str = ''
    thinking: bool = True
    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    stop: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise QuestionError for a value that makes no sense."""
        if not self.text.strip():
            raise QuestionError('text: empty, wanted a question')
        stops = sum(map(len, self.stop))
        if stops > STOP_CHARACTERS:
            raise QuestionError(f'stop: found {stops} characters in all, wanted at most '
                                f'{STOP_CHARACTERS}: name fewer or shorter strings')
        for name, holds, wanted in (
                ('max_tokens', self.max_tokens >= 1, 'at least 1'),
                ('temperature', 0 <= self.temperature < math.inf, 'a number from 0 on'),
                ('top_p', 0 < self.top_p <= 1, 'more than 0 and at most 1'),
                ('top_k', self.top_k >= 0, '0 (off) or more'),
                ('seed', -2**63 <= self.seed < 2**63, '64 bits with a sign'),
                ('stop', all(self.stop), 'no empty string')):
            if not holds:
                raise QuestionError(f'{name}: found {getattr(self, name)!r}, wanted {wanted}')
        for i, picture in enumerate(self.pictures):
            _check_pixels(f'picture {i}', picture, 3)
        for i, video in enumerate(self.videos):
            _check_pixels(f'video {i}', video.frames, 4)
            if not 0 < video.fps < math.inf:
                raise QuestionError(f'video {i}: {video.fps} frames a second, wanted more than 0')


@dataclass(frozen=True)
class Delta:
    """Text since the last delta, whole characters only; `tokens`: written so far."""

    text: str
    thinking: bool
    tokens: int


@dataclass(frozen=True)
class Answer:
    """The whole answer.

    `stop`: the stop string or end token that ended it, '' otherwise. `prompt_tokens` were read,
    `cached_tokens` of them taken from an earlier prefill; `token_ids` were written, thinking and
    end token included. `time_to_first_token`: s since the question was handed over
    (nan if there was none). `tokens_per_second`: of the tokens after the first (nan if none).
    """

    text: str
    thinking: str
    finish_reason: FinishReason
    stop: str
    prompt_tokens: int
    cached_tokens: int
    token_ids: tuple[int, ...]
    time_to_first_token: float
    tokens_per_second: float

    @property
    def completion_tokens(self) -> int:
        return len(self.token_ids)


def _check_pixels(name: str, pixels: np.ndarray, axes: int) -> None:
    shape = 'H, W, 3' if axes == 3 else 'T, H, W, 3'
    if pixels.dtype != np.uint8 or pixels.ndim != axes or pixels.shape[-1] != 3 or not pixels.size:
        raise QuestionError(f'{name}: {pixels.dtype} {pixels.shape}, wanted uint8 [{shape}] RGB')
