# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Names and shapes of the tensors in a checkpoint."""
from __future__ import annotations

from collections.abc import Mapping
import re
from typing import Any

from diffusers import AutoencoderKLWan
import torch

from .config import TransformerConfig
from .transformer import Transformer

FP32 = ('time_embedder.',)      # stored and kept in fp32 whatever the compute type

_STORED = [     # ours -> stored; the first pattern that matches decides
    (r'und\.norm\.', 'norm.'),
    (r'gen\.norm\.', 'norm_moe_gen.'),
    (r'(und|gen)\.layers\.(\d+)\.input_norm\.', r'layers.\2.input_layernorm<\1>.'),
    (r'(und|gen)\.layers\.(\d+)\.post_norm\.', r'layers.\2.post_attention_layernorm<\1>.'),
    (r'(und|gen)\.layers\.(\d+)\.mlp\.', r'layers.\2.mlp<\1>.'),
    (r'und\.layers\.(\d+)\.attention\.(q|k|v|out)\.', r'layers.\1.self_attn.to_\2.'),
    (r'und\.layers\.(\d+)\.attention\.(q|k)_norm\.', r'layers.\1.self_attn.norm_\2.'),
    (r'und\.layers\.(\d+)\.attention\.k_norm_for_gen\.',
     r'layers.\1.self_attn.k_norm_und_for_gen.'),
    (r'gen\.layers\.(\d+)\.attention\.(q|k|v)\.', r'layers.\1.self_attn.add_\2_proj.'),
    (r'gen\.layers\.(\d+)\.attention\.out\.', r'layers.\1.self_attn.to_add_out.'),
    (r'gen\.layers\.(\d+)\.attention\.(q|k)_norm\.', r'layers.\1.self_attn.norm_added_\2.'),
]


def stored_name(name: str) -> str:
    """Name in the checkpoint of one of our transformer's parameters."""
    for pattern, replacement in _STORED:
        stored, count = re.subn(f'^{pattern}', replacement, name)
        if count:
            return stored.replace('<und>', '').replace('<gen>', '_moe_gen')
    return name


def transformer_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Stored names and shapes of both towers and the heads."""
    with torch.device('meta'):
        tensors = Transformer(config).state_dict()
    return {stored_name(name): tuple(tensor.shape) for name, tensor in tensors.items()}


def vae_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Stored names and shapes of the VAE."""
    with torch.device('meta'):
        tensors = AutoencoderKLWan.from_config(dict(config)).state_dict()
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def understands(name: str) -> bool:
    """Whether a stored tensor belongs to the understanding tower, its embedding or its head."""
    if name.startswith(('embed_tokens.', 'lm_head.', 'norm.')):
        return True
    return name.startswith('layers.') and not re.search(
        r'_moe_gen\.|\.add_|\.to_add_out\.|norm_added_', name)
