# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the largest units of work hold for a moment (bytes): upper bounds, from sizes alone.

They count the tensors that the code of a pass holds at its widest point. What a library takes for
itself, such as the workspace of a convolution, is not in them.
"""
from __future__ import annotations

from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d
import torch

from ..model.config import TransformerConfig
from ..model.positions import TEMPORAL_COMPRESSION
from ..model.vae import VAE
from ..model.vision import VisionConfig

FP32 = 4


def generation_pass(config: TransformerConfig, tokens: int, dtype: torch.dtype) -> int:
    """A pass through the generation tower over the `tokens` of all guidance branches together.

    In fp32: the residual stream, positions, the patches that came and those that are made. In the
    compute type: a norm and an output, queries, keys and values joined, then queries, attended
    and merged, and the inside of the feed-forward block up to three times.
    """
    full = config.hidden_size + 2 * config.head_dim + 2 * config.patch_latent_dim
    return tokens * (FP32 * full + dtype.itemsize * _layer(config))


def prompt_pass(config: TransformerConfig, tokens: int, dtype: torch.dtype) -> int:
    """A pass through the understanding tower over the `tokens` of a batch of prompts."""
    return tokens * dtype.itemsize * (config.hidden_size + _layer(config))


def token_choice(config: TransformerConfig, rows: int) -> int:
    """Logits of `rows` streams, what sampling makes of them, and their place in graphs."""
    return rows * 8 * FP32 * config.vocab_size


def pictures_pass(config: VisionConfig, hidden: int, patches: int, dtype: torch.dtype) -> int:
    """Pictures of `patches` in all through the vision encoder, to tokens of `hidden` values."""
    tower = 8 * config.hidden_size + 2 * config.intermediate_size
    projected = 2 * config.projector_hidden_size + hidden
    merged = config.spatial_merge_size ** 2
    return patches * dtype.itemsize * (config.patch_values + tower + projected // merged)


def decoding(vae: VAE, height: int, width: int) -> int:
    """One latent of a size through the decoder of the VAE.

    Where the maps are largest there are about three: a convolution's input with the frames before
    it, its output, and what is added to that.
    """
    decoder, most = vae.module.decoder, 0
    for part in (decoder.conv_in, decoder.mid_block, *decoder.up_blocks, decoder.conv_out):
        channels = max(max(layer.in_channels, layer.out_channels) for layer in part.modules()
                       if isinstance(layer, WanCausalConv3d))
        most = max(most, height * width * channels)
        if getattr(part, 'upsampler', None) is not None:
            height, width = 2 * height, 2 * width
    return 3 * (TEMPORAL_COMPRESSION + 2) * most * vae.module.dtype.itemsize


def _layer(config: TransformerConfig) -> int:
    """Values of a token within a layer."""
    heads = config.num_attention_heads * config.head_dim
    joined = heads + 2 * config.num_key_value_heads * config.head_dim
    return 2 * config.hidden_size + joined + 3 * heads + 3 * config.intermediate_size
