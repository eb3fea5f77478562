# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures to latents and back through the Wan VAE."""
from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d
import torch
from torch import Tensor

from .config import CheckpointError
from .job import finish, single
from .positions import TEMPORAL_COMPRESSION
from .recordings import Recordings
from .vae_decoder import Decoder
from .vae_encoder import PATCH, Encoder
from .vae_layers import Past, Pointwise

SPATIAL_COMPRESSION = 16
UNIT = 3e12     # floating-point operations that a decode does between two yields, at most


def check_vae_config(values: Mapping[str, Any], source: str, latent_channel: int) -> None:
    """Check what the network depends on; raises CheckpointError."""
    wanted = {'z_dim': latent_channel, 'scale_factor_spatial': SPATIAL_COMPRESSION,
              'scale_factor_temporal': TEMPORAL_COMPRESSION, 'is_residual': True,
              'patch_size': PATCH}
    for name, value in wanted.items():
        if values.get(name) != value:
            raise CheckpointError(f'{source}: {name} is {values.get(name)!r}, wanted {value}')
    for name in ('latents_mean', 'latents_std'):
        if len(values.get(name) or ()) != latent_channel:
            raise CheckpointError(f'{source}: {name} needs {latent_channel} values, one a channel')


class VAE:
    """The autoencoder with the latents' normalisation: latent = (mode - mean) / std.

    `module` holds config and weights, which are laid out anew in place; the forwards are ours.
    """

    def __init__(self, module: AutoencoderKLWan):
        self.module = module
        self.encoder, self.decoder = Encoder(module.encoder), Decoder(module.decoder)
        self._quantize = Pointwise(module.quant_conv)
        self._post_quantize = Pointwise(module.post_quant_conv)
        self._recordings = Recordings()     # of encoded pictures, by size
        device = next(module.parameters()).device
        self._mean = torch.tensor(module.config.latents_mean, device=device)
        self._std = torch.tensor(module.config.latents_std, device=device)

    def encode_frame(self, pixels: Tensor) -> Tensor:
        """One picture [3, H, W] in [-1, 1] -> fp32 latent [C, 1, H / 16, W / 16].

        The encoder is causal in time, so this is the first latent of every clip that starts
        with the picture.
        """
        encode = partial(single, self._encode)
        return finish(self._recordings.run(pixels.shape, encode, pixels)).clone()

    def _encode(self, pixels: Tensor) -> Tensor:
        moments = self._quantize(self.encoder(pixels.to(self.module.dtype)))
        mode = moments[..., :len(self._mean)].float()
        return ((mode - self._mean) / self._std).permute(2, 0, 1)[:, None].contiguous()

    def decoding(self, latent: Tensor, past: Past) -> Generator[int, None, Tensor]:
        """Latent [C, 1, h, w] -> frames [F, 16 h, 16 w, 3]; see `Decoder.run`."""
        x = latent.permute(1, 2, 3, 0).float() * self._std + self._mean
        return self.decoder.run(self._post_quantize(x.to(self.module.dtype)), past)


class StreamingDecoder:
    """Decodes the latents of one video, one at a time, each once.

    The decoder is causal in time: with its feature cache kept, one latent after the other gives
    what decoding all of them at once gives. A call that fails or is given up leaves the cache as
    it was.
    """

    def __init__(self, vae: VAE):
        self._vae = vae
        self._features: list[Tensor] = []
        self.latents = 0

    def decode(self, latent: Tensor) -> Tensor:
        """Next latent [C, 1, h, w] -> frames [3, F, H, W] in [-1, 1]; F is 1 at first, then 4."""
        return finish(self.decoding(latent))

    def decoding(self, latent: Tensor) -> Generator[None, None, Tensor]:
        """`decode` in parts: yields between units of at most UNIT, 4 to 5 ms on an H200."""
        past, done = Past(self._features), 0
        work = self._vae.decoding(latent, past)
        while True:
            try:
                coming = next(work)
            except StopIteration as stop:
                frames = stop.value
                break
            if done and done + coming > UNIT:
                yield
                done = 0
            done += coming
        self._features = past.kept
        self.latents += 1
        return frames.clamp_(-1, 1).permute(3, 0, 1, 2)

    @staticmethod
    def device_bytes(vae: VAE, height: int, width: int) -> int:
        """Bytes of the feature cache for latents of a size.

        It holds the last two input frames of every convolution that reaches back in time.
        """
        decoder, total = vae.module.decoder, 0
        for part in (decoder.conv_in, decoder.mid_block, *decoder.up_blocks, decoder.conv_out):
            total += 2 * height * width * sum(
                layer.in_channels for layer in part.modules()
                if isinstance(layer, WanCausalConv3d) and layer.kernel_size[0] > 1)
            if getattr(part, 'upsampler', None) is not None:
                height, width = 2 * height, 2 * width
        return total * vae.module.dtype.itemsize
