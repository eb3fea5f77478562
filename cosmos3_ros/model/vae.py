# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures to latents and back through the Wan VAE of diffusers."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d, unpatchify
import torch
from torch import Tensor
import torch.nn.functional as F

from .config import CheckpointError
from .positions import TEMPORAL_COMPRESSION

SPATIAL_COMPRESSION = 16


def check_vae_config(values: Mapping[str, Any], source: str, latent_channel: int) -> None:
    """Check what the network depends on; raises CheckpointError."""
    wanted = {'z_dim': latent_channel, 'scale_factor_spatial': SPATIAL_COMPRESSION,
              'scale_factor_temporal': TEMPORAL_COMPRESSION}
    for name, value in wanted.items():
        if values.get(name) != value:
            raise CheckpointError(f'{source}: {name} is {values.get(name)!r}, wanted {value}')
    for name in ('latents_mean', 'latents_std'):
        if len(values.get(name) or ()) != latent_channel:
            raise CheckpointError(f'{source}: {name} needs {latent_channel} values, one a channel')


class VAE:
    """The autoencoder with the latents' normalisation: latent = (mode - mean) / std."""

    def __init__(self, module: AutoencoderKLWan):
        self.module = module
        for layer in module.modules():
            if isinstance(layer, WanCausalConv3d):
                layer.__class__ = FirstFrameConv
        shape = (-1, 1, 1, 1)
        device = next(module.parameters()).device
        self._mean = torch.tensor(module.config.latents_mean, device=device).view(shape)
        self._std = torch.tensor(module.config.latents_std, device=device).view(shape)

    def encode_frame(self, pixels: Tensor) -> Tensor:
        """One picture [3, H, W] in [-1, 1] -> fp32 latent [C, 1, H / 16, W / 16].

        The encoder is causal in time, so this is the first latent of every clip that starts
        with the picture.
        """
        mode = self.module.encode(pixels[None, :, None].to(self.module.dtype)).latent_dist.mode()
        return (mode[0].float() - self._mean) / self._std

    def denormalize(self, latent: Tensor) -> Tensor:
        """Latent [C, T, h, w] in the decoder's own scale."""
        return latent.float() * self._std + self._mean


class FirstFrameConv(WanCausalConv3d):
    """A causal convolution; of one frame without a past it is one in space alone.

    The past is zeros then, so only the kernel's last slice counts: a third of the work.
    """

    def forward(self, x: Tensor, cache_x: Tensor | None = None) -> Tensor:
        """[B, C, T, H, W] with the two frames before it, if there are any."""
        if cache_x is not None or x.shape[2] > 1:
            return super().forward(x, cache_x)
        width, _, height, *_ = self._padding
        plane = F.conv2d(x[:, :, 0], self.weight[:, :, -1], self.bias, self.stride[1:],
                         (height, width))
        return plane[:, :, None]


class StreamingDecoder:
    """Decodes the latents of one video, one at a time, each once.

    The decoder is causal in time: with its feature cache kept, one latent after the other gives
    what decoding all of them at once gives. A call that fails leaves the cache as it was.
    """

    def __init__(self, vae: VAE):
        self._vae = vae
        self._features: list = [None] * vae.module._cached_conv_counts['decoder']
        self.latents = 0

    def decode(self, latent: Tensor) -> Tensor:
        """Next latent [C, 1, h, w] -> frames [3, F, H, W] in [-1, 1]; F is 1 at first, then 4."""
        module, features = self._vae.module, list(self._features)
        x = module.post_quant_conv(self._vae.denormalize(latent)[None].to(module.dtype))
        x = module.decoder(x, feat_cache=features, feat_idx=[0], first_chunk=self.latents == 0)
        if module.config.patch_size is not None:
            x = unpatchify(x, patch_size=module.config.patch_size)
        self._features = features
        self.latents += 1
        return x[0].float().clamp(-1, 1)

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
