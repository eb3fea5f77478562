# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The VAE's decoder alone."""
from __future__ import annotations

import torch
from torch import Tensor

from ..model.cosmos3 import Cosmos3
from ..model.vae import SPATIAL_COMPRESSION, StreamingDecoder
from .report import Row
from .setting import Setting, seconds


def decode(setting: Setting) -> list[Row]:
    """Latents of a video after its first two, one at a time, to pixels on the device."""
    model = setting.model('base')
    setting.call(_decode, setting, model)
    runs = tuple(setting.call(_decode, setting, model) for _ in range(setting.runs))
    width, height = setting.sizes.large
    return [Row('vae_decode', f'{setting.sizes.decoded} latents of 4 frames {width}x{height}',
                setting.precision, 'ms_per_latent', 'ms', runs,
                1e3 * setting.floors('base').decode(height, width))]


def _decode(setting: Setting, model: Cosmos3) -> float:
    decoder = StreamingDecoder(model.vae)
    first, *rest = latents(setting).split(1, dim=1)
    decoder.decode(first)
    decoder.decode(first)           # whose convolutions still miss a past
    took = seconds(setting.device, lambda: [decoder.decode(latent) for latent in rest])
    return 1e3 * took / len(rest)


def latents(setting: Setting) -> Tensor:
    """Noise as one latent more than a run decodes: fp32 [C, 1 + N, h, w]."""
    width, height = setting.sizes.large
    generator = torch.Generator(setting.device).manual_seed(0)
    shape = (setting.checkpoint('base').config.latent_channel, 1 + setting.sizes.decoded,
             height // SPATIAL_COMPRESSION, width // SPATIAL_COMPRESSION)
    return torch.randn(shape, generator=generator, device=setting.device)
