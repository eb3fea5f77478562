# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The least time that a work can take on this machine: its FLOPs and bytes by measured rates."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..model.config import TransformerConfig
from ..model.positions import TEMPORAL_COMPRESSION
from ..model.vae import SPATIAL_COMPRESSION
from ..model.vision import VisionConfig
from ..tasks.policy import PolicyRecipe
from ..tasks.rollout import RolloutRecipe
from ..tasks.sampler import flow_schedule
from .flops import (
    Flops,
    answer_flops,
    decode_flops,
    encode_flops,
    layer_weights,
    prefill_flops,
    velocity_flops,
    vision_flops,
    write_flops,
)
from .rates import Rates

BYTES = {'fp32': 4, 'bf16': 2, 'fp8': 1}


@dataclass(frozen=True)
class Floors:
    """Floors of one checkpoint in one precision, all in seconds unless said.

    fp8 means the linears of the generation tower, and the weights that an answer's tokens read;
    attention, keys and values, prompts and the VAE count as bf16 then.
    """

    config: TransformerConfig
    vae: Mapping[str, Any]
    rates: Rates
    precision: str

    @property
    def _others(self) -> str:
        return 'bf16' if self.precision == 'fp8' else self.precision

    def compute(self, flops: Flops, precision: str | None = None) -> float:
        """Time of `flops`, their tower's linears in `precision`."""
        linear = self.rates.matmul[precision or self._others]
        return (flops.linear / linear
                + (flops.attention + flops.other) / self.rates.matmul[self._others])

    def read(self, count: float) -> float:
        """Time to read so many bytes, at the rate of a copy's reads and writes."""
        return count / self.rates.copy

    def _generation(self, branches: Sequence[Flops]) -> float:
        """One pass of all guidance branches, which read the weights once."""
        weights = self.config.num_hidden_layers * layer_weights(self.config)
        return max(sum(self.compute(flops, self.precision) for flops in branches),
                   self.read(weights * BYTES[self.precision]))

    def forward(self, patches: int, rows: int, before: int) -> float:
        """One forward of one branch; arguments as for `velocity_flops`."""
        return self._generation([velocity_flops(self.config, patches, rows, before)])

    def chunk(self, recipe: PolicyRecipe, canvas: tuple[int, int], content: tuple[int, int],
              texts: tuple[int, int]) -> float:
        """A policy chunk with its prompts cached.

        `canvas`: (height, width) in pixels that is encoded; `content`: in latents, that is
        denoised; `texts`: tokens of the conditional and of the unconditional prompt.
        """
        latents = (recipe.num_frames - 1) // TEMPORAL_COMPRESSION + 1
        patches = latents * self.patches(*content)
        total = self.compute(encode_flops(self.vae, *canvas))
        for timestep in flow_schedule(recipe.steps, recipe.shift)[1]:
            guided = recipe.guidance_interval[0] < timestep < recipe.guidance_interval[1]
            total += self._generation([
                velocity_flops(self.config, patches, recipe.num_frames, text)
                for text in (texts if guided else texts[:1])])
        return total

    def video(self, recipe: RolloutRecipe, frames: int, texts: Sequence[int],
              picture: bool) -> tuple[float, float]:
        """A new video: time to its first frame, and to its last.

        `texts`: tokens of each branch's prompt, read anew; `picture`: frame 0 is given.
        """
        first, later = (self.compute(flops)
                        for flops in decode_flops(self.vae, recipe.height, recipe.width))
        start = sum(self.compute(prefill_flops(self.config, text)) for text in texts)
        if picture:
            start += self.compute(encode_flops(self.vae, recipe.height, recipe.width))
        windows = list(self._windows(recipe, frames, texts))
        latents = (frames - 1) // TEMPORAL_COMPRESSION + 1
        return (start + windows[0][0] + first,
                start + sum(map(sum, windows)) + first + (latents - 1) * later)

    def _windows(self, recipe: RolloutRecipe, frames: int,
                 texts: Sequence[int]) -> Iterator[tuple[float, float]]:
        """Time of each window's steps, and of the passes that write its keys and values."""
        latents = (frames - 1) // TEMPORAL_COMPRESSION + 1
        latent = self.patches(*recipe.latent_size)
        window = latents if recipe.mode == 'clip' else recipe.window
        done = 0
        while done < latents:
            kept = min(done, recipe.anchor + recipe.history) if recipe.mode == 'kv' else 0
            before = [text + kept * latent for text in texts]
            steps = recipe.steps * self._generation(
                [velocity_flops(self.config, window * latent, 0, keys) for keys in before])
            write = 0.0 if recipe.mode != 'kv' else self._generation(
                [write_flops(self.config, window * latent, keys) for keys in before])
            yield steps, write
            done += window - (recipe.overlap if recipe.mode == 'chained' and done else 0)

    def patches(self, height: int, width: int) -> int:
        """Vision tokens of a latent frame."""
        patch = self.config.latent_patch_size
        return -(-height // patch) * -(-width // patch)

    def decode(self, height: int, width: int) -> float:
        """Each latent but a video's first, of a size in pixels."""
        return self.compute(decode_flops(self.vae, height, width)[1])

    def question(self, vision: VisionConfig, patches: int, tokens: int) -> float:
        """Reading a prompt of `tokens` with a picture of `patches`, up to the first token."""
        flops = (vision_flops(vision, self.config.hidden_size, patches)
                 + answer_flops(self.config, tokens))
        return max(self.compute(flops), self.read(self._understanding * BYTES[self._others]))

    def token(self, streams: int, length: float) -> float:
        """A token for each stream: the weights once, and each stream's own keys and values."""
        width = self.config.num_key_value_heads * self.config.head_dim
        keys = 2 * self.config.num_hidden_layers * width * length
        return self.read(self._understanding * BYTES[self.precision]
                         + streams * keys * BYTES[self._others])

    @property
    def _understanding(self) -> int:
        """Weights of the understanding tower and of the head."""
        config = self.config
        return (config.num_hidden_layers * layer_weights(config)
                + config.vocab_size * config.hidden_size)


def pixels(latent: tuple[int, int]) -> tuple[int, int]:
    """(height, width) in pixels of a size in latents."""
    return latent[0] * SPATIAL_COMPRESSION, latent[1] * SPATIAL_COMPRESSION
