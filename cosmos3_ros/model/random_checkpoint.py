# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with random weights: everything but the meaning of the output is real.

`random:edge` and `random:edge-droid` have the published sizes and time the same as the published
files; `random:tiny` runs on a CPU. A policy variant (`-droid`) differs from its base in the
generation tower alone, as the published pair does.
"""
from __future__ import annotations

from typing import Any

import torch

from .config import CheckpointError, TransformerConfig
from .names import FP32, transformer_shapes, understands, vae_shapes
from .processor import Processor
from .random_tokenizer import EOS, random_processor, random_tokenizer
from .tokenizer import PromptTokenizer
from .vision import VisionConfig, vision_shapes
from .weights import Header, RandomWeights

RANDOM = 'random:'

_COMMON = {
    'attention_bias': False, 'attention_dropout': 0.0, 'base_fps': 24,
    'enable_fps_modulation': True, 'unified_3d_mrope_reset_spatial_ids': True,
    'unified_3d_mrope_temporal_modality_margin': 15000, 'latent_patch_size': 2,
    'action_gen': True, 'action_dim': 64, 'num_embodiment_domains': 32, 'timestep_scale': 0.001,
    'sound_gen': False,
}
_EDGE_KIND = {'hidden_act': 'relu2', 'rms_norm_eps': 1e-5, 'rope_theta': 1e8,
              'qk_norm_for_text': False, 'use_und_k_norm_for_gen': True}
_NANO_KIND = {'hidden_act': 'silu', 'rms_norm_eps': 1e-6, 'rope_theta': 5e6,
              'qk_norm_for_text': True, 'use_und_k_norm_for_gen': False}
_TINY_SIZES = {
    'hidden_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': 2,
    'num_key_value_heads': 1, 'head_dim': 16, 'intermediate_size': 128, 'vocab_size': 512,
    'rope_axes_dim': [5, 2, 1], 'latent_channel': 16, 'patch_latent_dim': 64,
}
_EDGE_SIZES = {
    'hidden_size': 2048, 'num_hidden_layers': 28, 'num_attention_heads': 16,
    'num_key_value_heads': 8, 'head_dim': 128, 'intermediate_size': 9216, 'vocab_size': 131072,
    'rope_axes_dim': [24, 20, 20], 'latent_channel': 48, 'patch_latent_dim': 192,
}
_NANO_SIZES = {
    'hidden_size': 4096, 'num_hidden_layers': 36, 'num_attention_heads': 32,
    'num_key_value_heads': 8, 'head_dim': 128, 'intermediate_size': 12288, 'vocab_size': 151936,
    'rope_axes_dim': [24, 20, 20], 'latent_channel': 48, 'patch_latent_dim': 192,
}


def _vae(base_dim: int, decoder_base_dim: int, channels: int) -> dict[str, Any]:
    return {
        'base_dim': base_dim, 'decoder_base_dim': decoder_base_dim, 'z_dim': channels,
        'dim_mult': [1, 2, 4, 4], 'num_res_blocks': 2, 'attn_scales': [],
        'temperal_downsample': [False, True, True], 'dropout': 0.0, 'is_residual': True,
        'in_channels': 12, 'out_channels': 12, 'patch_size': 2,
        'scale_factor_temporal': 4, 'scale_factor_spatial': 16,
        'latents_mean': [round(0.2 * (i % 5 - 2), 1) for i in range(channels)],
        'latents_std': [round(0.5 + 0.1 * (i % 7), 1) for i in range(channels)],
    }


_TINY = (_COMMON | _EDGE_KIND | _TINY_SIZES, _vae(4, 4, 16))
_TINY_NANO = (_COMMON | _NANO_KIND | _TINY_SIZES
              | {'num_attention_heads': 4, 'num_key_value_heads': 2}, _vae(4, 4, 16))
_EDGE = (_COMMON | _EDGE_KIND | _EDGE_SIZES, _vae(160, 256, 48))
_NANO = (_COMMON | _NANO_KIND | _NANO_SIZES, _vae(160, 256, 48))
_VISION = {'num_channels': 3, 'patch_size': 16, 'hidden_act': 'gelu_pytorch_tanh',
           'layer_norm_eps': 1e-6, 'num_patches': 256, 'spatial_merge_size': 2}
_TINY_VISION = {'projector_hidden_size': 64, 'vision_config': _VISION | {
    'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2,
    'num_attention_heads': 2}}
_EDGE_VISION = {'projector_hidden_size': 11520, 'vision_config': _VISION | {
    'hidden_size': 1152, 'intermediate_size': 4304, 'num_hidden_layers': 27,
    'num_attention_heads': 16}}
REASONERS = {'tiny': _TINY_VISION, 'edge': _EDGE_VISION}    # vision part of the root config.json
VARIANTS = {'tiny': _TINY, 'tiny-droid': _TINY, 'tiny-nano': _TINY_NANO,
            'edge': _EDGE, 'edge-droid': _EDGE, 'nano': _NANO}


def variant_configs(variant: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """`transformer/config.json` and `vae/config.json` of a variant.

    Raises CheckpointError for a name that is not one.
    """
    if variant not in VARIANTS:
        raise CheckpointError(f'checkpoint {RANDOM}{variant}: no such variant; wanted one of '
                              + ', '.join(RANDOM + name for name in VARIANTS))
    return VARIANTS[variant]


def random_checkpoint(reference: str, device: torch.device | str) -> dict[str, Any]:
    """Parts of a Checkpoint for a name like `random:tiny`; its tensors are drawn on `device`.

    Stored types are those of the published files: bf16, and fp32 for the time embedder; the
    tiny ones are fp32 throughout.
    """
    variant = reference.removeprefix(RANDOM)
    transformer, vae = variant_configs(variant)
    config = TransformerConfig.from_json(transformer, reference)
    dtype = torch.float32 if variant.startswith('tiny') else torch.bfloat16
    headers = {name: Header(shape, torch.float32 if name.startswith(FP32) else dtype)
               for name, shape in transformer_shapes(config).items()}
    salts = {} if not variant.endswith('-droid') else {
        name: 'droid' for name in headers if not understands(name)}
    return {
        'name': reference, 'config': config, 'vae_config': vae,
        'transformer': RandomWeights(headers, salts, device),
        'vae': RandomWeights({name: Header(shape, dtype)
                              for name, shape in vae_shapes(vae).items()}, device=device),
        'tokenizer': PromptTokenizer(random_tokenizer()),
        **_random_reasoner(variant, config, dtype, device),
    }


def _random_reasoner(variant: str, config: TransformerConfig, dtype: torch.dtype,
                     device: torch.device | str) -> dict[str, Any]:
    if variant not in REASONERS:
        return {}
    vision = VisionConfig.from_json(REASONERS[variant], RANDOM + variant)
    headers = {name: Header(shape, dtype)
               for name, shape in vision_shapes(vision, config.hidden_size).items()}
    return {'vision_config': vision, 'vision': RandomWeights(headers, device=device),
            'processor': Processor(random_processor(), EOS)}
