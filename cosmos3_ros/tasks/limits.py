# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What one request may ask for: beyond it, other tasks would wait for seconds."""
from __future__ import annotations

from ..model.tokenizer import PromptTokenizer
from ..model.vae import SPATIAL_COMPRESSION
from .sampler import TRAIN_TIMESTEPS

RANGES = {'fps': (1, 60), 'steps': (1, TRAIN_TIMESTEPS), 'guidance': (0, 100), 'shift': (0.1, 100)}
LATENT_PIXELS = 100_000     # of a window: 64 latents of 832x480
PROMPT_TOKENS = 4096
PROMPT_CHARACTERS = 16 * PROMPT_TOKENS      # a longer text is not even cut into tokens


def check_ranges(**values: float) -> None:
    """Raise ValueError for a number of a recipe that is out of its range; NaN is in none."""
    for name, value in values.items():
        low, high = RANGES[name]
        if not low <= value <= high:
            raise ValueError(f'{name} is {value}, wanted {low} to {high}')


def check_window(latents: int, height: int, width: int) -> None:
    """Raise ValueError for a window that is too large; `height` and `width` in pixels."""
    most = LATENT_PIXELS * SPATIAL_COMPRESSION**2 // (height * width)
    if latents > most:
        raise ValueError(f'window is {latents} latents of {width}x{height}, wanted at most '
                         f'{most}: ask for fewer frames at once or a smaller picture')


def prompt_ids(tokenizer: PromptTokenizer, prompt: str, name: str = 'prompt') -> list[int]:
    """Token ids of a prompt. Raises ValueError for one that is too long; `name`: of the prompt."""
    found = f'{len(prompt)} characters'
    if len(prompt) <= PROMPT_CHARACTERS:
        ids = tokenizer.encode(prompt)
        if len(ids) <= PROMPT_TOKENS:
            return ids
        found = f'{len(ids)} tokens'
    raise ValueError(f'{name} has {found}, wanted at most {PROMPT_TOKENS} tokens and '
                     f'{PROMPT_CHARACTERS} characters: say it in fewer words')
