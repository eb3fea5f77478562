# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Write a tiny random checkpoint in the published layout.

diffusers loads it as Cosmos3OmniPipeline, transformers as Cosmos3EdgeForConditionalGeneration,
and this package as a folder; all three then hold the same weights.
"""
from __future__ import annotations

from collections.abc import Mapping
import json
from pathlib import Path
from typing import Any

from diffusers import UniPCMultistepScheduler
from safetensors.torch import save_file
from transformers import Cosmos3EdgeConfig, GenerationConfig

from .config import CheckpointError
from .names import understands
from .random_checkpoint import RANDOM, REASONERS, random_checkpoint, variant_configs
from .random_tokenizer import EOS, random_processor, random_tokenizer
from .weights import RandomWeights

SHARDS = 2      # as the published transformer: more than one, with an index
_WEIGHTS = 'diffusion_pytorch_model'


def write_tiny(folder: Path, variant: str = 'tiny') -> None:
    """Write `random:tiny` (or `tiny-droid`, which has no vision encoder) into a new folder.

    Raises CheckpointError if the folder holds something, or for a variant of another kind.
    """
    if variant not in ('tiny', 'tiny-droid'):
        raise CheckpointError(f'variant {variant!r}: wanted tiny or tiny-droid; '
                              f'{RANDOM}{variant} needs no folder')
    if folder.is_dir() and any(folder.iterdir()):
        raise CheckpointError(f'{folder}: not empty; name a new folder')
    parts = random_checkpoint(RANDOM + variant, 'cpu')
    transformer, vae = variant_configs(variant)
    _write_component(folder / 'transformer', 'Cosmos3OmniTransformer', transformer,
                     parts['transformer'], SHARDS)
    _write_component(folder / 'vae', 'AutoencoderKLWan', vae, parts['vae'], 1)
    _write_pipeline(folder)
    if variant in REASONERS:
        _write_reasoner(folder, transformer, parts['transformer'], parts['vision'])


def _write_component(folder: Path, class_name: str, config: Mapping[str, Any],
                     weights: RandomWeights, shards: int) -> None:
    _write_json(folder / 'config.json', {'_class_name': class_name, **config})
    names = sorted(weights.headers)
    if shards == 1:
        return _save(folder / f'{_WEIGHTS}.safetensors', weights, names)
    for i in range(shards):
        _save(folder / _shard(i), weights, names[i::shards])
    _write_json(folder / f'{_WEIGHTS}.safetensors.index.json', {
        'metadata': {'total_size': sum(h.nbytes for h in weights.headers.values())},
        'weight_map': {name: _shard(i % shards) for i, name in enumerate(names)}})


def _shard(i: int) -> str:
    return f'{_WEIGHTS}-{i + 1:05}-of-{SHARDS:05}.safetensors'


def _save(path: Path, weights: RandomWeights, names: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: weights.read(name).contiguous() for name in names}, path,
              metadata={'format': 'pt'})


def _write_pipeline(folder: Path) -> None:
    """What diffusers reads beside the transformer and the VAE."""
    UniPCMultistepScheduler(
        prediction_type='flow_prediction', use_flow_sigmas=True, flow_shift=1.0, solver_order=2,
        solver_type='bh2', predict_x0=True, lower_order_final=True, final_sigmas_type='zero',
        num_train_timesteps=1000).save_pretrained(folder / 'scheduler')
    tokenizer = random_tokenizer()
    tokenizer.save_pretrained(folder / 'text_tokenizer')
    _write_json(folder / 'model_index.json', {
        '_class_name': 'Cosmos3OmniPipeline',
        'transformer': ['diffusers', 'Cosmos3OmniTransformer'],
        'vae': ['diffusers', 'AutoencoderKLWan'],
        'scheduler': ['diffusers', 'UniPCMultistepScheduler'],
        'text_tokenizer': ['transformers', type(tokenizer).__name__],
        'default_use_system_prompt': False, 'use_native_flow_schedule': True,
        'enable_safety_checker': False})


def _write_reasoner(folder: Path, transformer: Mapping[str, Any], weights: RandomWeights,
                    vision: RandomWeights) -> None:
    """What transformers reads: one index over the shared UND tensors and the vision tensors."""
    _save(folder / 'vision_encoder/model.safetensors', vision, sorted(vision.headers))
    stored = json.loads((folder / f'transformer/{_WEIGHTS}.safetensors.index.json').read_text())
    shared = {name: f'transformer/{file}' for name, file in stored['weight_map'].items()
              if understands(name)}
    _reasoner_config(transformer).save_pretrained(folder)
    GenerationConfig(eos_token_id=list(EOS), bos_token_id=1, pad_token_id=0).save_pretrained(folder)
    _write_json(folder / 'model.safetensors.index.json', {
        'metadata': {'total_size': sum(weights.headers[n].nbytes for n in shared)
                     + sum(h.nbytes for h in vision.headers.values())},
        'weight_map': shared | dict.fromkeys(sorted(vision.headers),
                                             'vision_encoder/model.safetensors')})
    _write_processor(folder)


def _reasoner_config(transformer: Mapping[str, Any]) -> Cosmos3EdgeConfig:
    same = ('hidden_size', 'num_hidden_layers', 'num_attention_heads', 'num_key_value_heads',
            'head_dim', 'intermediate_size', 'vocab_size', 'hidden_act', 'rms_norm_eps')
    return Cosmos3EdgeConfig(
        architectures=['Cosmos3EdgeForConditionalGeneration'], dtype='float32',
        **REASONERS['tiny'],
        text_config={name: transformer[name] for name in same} | {'rope_parameters': {
            'rope_type': 'default', 'rope_theta': transformer['rope_theta'],
            'mrope_section': transformer['rope_axes_dim']}})


def _write_processor(folder: Path) -> None:
    processor = random_processor()
    processor.image_processor.save_pretrained(folder)
    processor.save_pretrained(folder)


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=2) + '\n', encoding='utf-8')
