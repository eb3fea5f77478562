# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Multiplications and additions that the networks ask for, as they are defined.

A product of [N, K] by [K, M] counts 2 N K M; norms, activations and rotations count nothing.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
import json
from typing import Any

from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import WanAttentionBlock, WanCausalConv3d
import torch
from torch import Tensor, nn

from ..model.config import TransformerConfig
from ..model.layers import TimeEmbedder
from ..model.vision import VisionConfig


@dataclass(frozen=True)
class Flops:
    """`linear`: weights of a tower's layers; `attention`: queries by keys and by values;
    `other`: embeddings, heads, convolutions.
    """

    linear: float = 0.0
    attention: float = 0.0
    other: float = 0.0

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.linear + other.linear, self.attention + other.attention,
                     self.other + other.other)

    def __mul__(self, times: float) -> Flops:
        return Flops(times * self.linear, times * self.attention, times * self.other)

    @property
    def total(self) -> float:
        return self.linear + self.attention + self.other


def layer_weights(config: TransformerConfig) -> int:
    """Weights of the linears of one layer of one tower."""
    return _key_value_weights(config) + config.hidden_size * (
        2 * config.num_attention_heads * config.head_dim
        + (3 if config.hidden_act == 'silu' else 2) * config.intermediate_size)


def _key_value_weights(config: TransformerConfig) -> int:
    return 2 * config.hidden_size * config.num_key_value_heads * config.head_dim


def _attention(config: TransformerConfig, pairs: float) -> float:
    """Of one layer, for so many pairs of a query and a key."""
    return 4.0 * pairs * config.num_attention_heads * config.head_dim


def velocity_flops(config: TransformerConfig, patches: int, rows: int, before: int) -> Flops:
    """One forward of the generation tower for one guidance branch.

    `patches`: vision tokens; `rows`: action tokens; `before`: keys of the prompt and of what was
    committed.
    """
    tokens, hidden = patches + rows, config.hidden_size
    heads = 4.0 * patches * config.patch_latent_dim * hidden
    heads += 4.0 * rows * (config.action_dim or 0) * hidden
    heads += 2.0 * (TimeEmbedder.CHANNELS + hidden) * hidden
    return Flops(
        2.0 * config.num_hidden_layers * tokens * layer_weights(config),
        config.num_hidden_layers * _attention(config, tokens * (before + tokens)), heads)


def write_flops(config: TransformerConfig, patches: int, before: int) -> Flops:
    """The pass that leaves keys and values of finished latents: the last layer ends with them."""
    layers = config.num_hidden_layers - 1
    return Flops(2.0 * patches * (layers * layer_weights(config) + _key_value_weights(config)),
                 layers * _attention(config, patches * (before + patches)),
                 2.0 * patches * config.patch_latent_dim * config.hidden_size)


def prefill_flops(config: TransformerConfig, tokens: int) -> Flops:
    """A prompt through the understanding tower, for the keys and values that GEN reads."""
    layers = config.num_hidden_layers - 1       # nothing reads what the last layer attends to
    return Flops(2.0 * tokens * (layers * layer_weights(config) + _key_value_weights(config)),
                 layers * _attention(config, tokens * (tokens + 1) / 2))


def answer_flops(config: TransformerConfig, tokens: int) -> Flops:
    """A prompt through the whole understanding tower, and one token's logits."""
    pairs = tokens * (tokens + 1) / 2
    return Flops(2.0 * config.num_hidden_layers * tokens * layer_weights(config),
                 config.num_hidden_layers * _attention(config, pairs),
                 2.0 * config.hidden_size * config.vocab_size)


def vision_flops(config: VisionConfig, outputs: int, patches: int) -> Flops:
    """A picture of so many patches through the vision encoder and its projector."""
    size, layers = config.hidden_size, config.num_hidden_layers
    merged = size * config.spatial_merge_size**2
    tokens = patches / config.spatial_merge_size**2
    return Flops(
        2.0 * layers * patches * (4 * size * size + 2 * size * config.intermediate_size),
        4.0 * layers * patches * patches * size,
        2.0 * patches * config.patch_values * size
        + 2.0 * tokens * config.projector_hidden_size * (merged + outputs))


def encode_flops(config: Mapping[str, Any], height: int, width: int) -> Flops:
    """One picture of a size in pixels to its latent."""
    return _vae_flops(json.dumps(dict(config)), height, width)[0]


def decode_flops(config: Mapping[str, Any], height: int, width: int) -> tuple[Flops, Flops]:
    """The first latent of a video of a size in pixels, and each later one."""
    return _vae_flops(json.dumps(dict(config)), height, width)[1:]


@lru_cache
def _vae_flops(config: str, height: int, width: int) -> tuple[Flops, Flops, Flops]:
    with torch.device('meta'):
        module = AutoencoderKLWan.from_config(json.loads(config)).eval()
        counter = _Counter(module)
        with torch.no_grad():
            latent = module.encode(torch.empty(1, 3, 1, height, width)).latent_dist.mode()
            encode = counter.take()
            features = [None] * module._cached_conv_counts['decoder']
            decoded = []
            for index in range(3):      # the second still has no whole past
                module.decoder(module.post_quant_conv(latent), feat_cache=features, feat_idx=[0],
                               first_chunk=index == 0)
                decoded.append(counter.take())
    return encode, decoded[0], decoded[2]


class _Counter:
    """Counts what the convolutions and attentions of a Wan VAE have to do."""

    def __init__(self, module: nn.Module):
        self._found = Flops()
        for layer in module.modules():
            if isinstance(layer, (nn.Conv2d, nn.Conv3d)):
                layer.register_forward_hook(self._convolution)
            elif isinstance(layer, WanAttentionBlock):
                layer.register_forward_hook(self._attention)

    def take(self) -> Flops:
        found, self._found = self._found, Flops()
        return found

    def _convolution(self, layer: nn.Module, inputs: tuple, output: Tensor) -> None:
        taps = layer.weight[0].numel()              # input channels and kernel
        past = inputs[1] if len(inputs) > 1 else None
        if isinstance(layer, WanCausalConv3d) and past is None and inputs[0].shape[2] == 1:
            taps //= layer.kernel_size[0]           # the others meet zeros before the video
        self._found += Flops(other=2.0 * taps * output.numel())

    def _attention(self, layer: nn.Module, inputs: tuple, output: Tensor) -> None:
        _, channels, frames, height, width = output.shape
        self._found += Flops(attention=4.0 * frames * (height * width)**2 * channels)
