# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Find a checkpoint, check it against its own configuration, and load it.

A checkpoint is a folder in the diffusers layout, a name like `random:tiny`, or a hub id with an
optional revision (`nvidia/Cosmos3-Edge@REV`).
"""
from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
import contextlib
from dataclasses import dataclass
from pathlib import Path
import re
from typing import Any

from diffusers import AutoencoderKLWan
from huggingface_hub import snapshot_download
from huggingface_hub.constants import HF_HUB_CACHE
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
import torch
from torch import nn

from .config import CheckpointError, TransformerConfig
from .cosmos3 import Cosmos3
from .job import finish
from .kernels.quantize import FP8
from .names import FP32, stored_name, transformer_shapes, vae_shapes
from .processor import Processor
from .random_checkpoint import RANDOM, random_checkpoint
from .tokenizer import PromptTokenizer
from .transformer import Transformer
from .vae import VAE, check_vae_config
from .vision import PREFIX as VISION_PREFIX
from .vision import Vision, VisionConfig, vision_shapes
from .weights import RandomWeights, Shards, check_headers, read_json

UNUSED = ('audio_',)            # sound heads of checkpoints that have them

@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found; `open_checkpoint` has checked it, nothing is loaded yet.

    `vision`, its config and `processor` are None for a checkpoint that answers no questions, such
    as a policy's.
    """

    name: str
    config: TransformerConfig
    vae_config: Mapping[str, Any]
    transformer: Shards | RandomWeights
    vae: Shards | RandomWeights
    tokenizer: PromptTokenizer
    vision: Shards | RandomWeights | None = None
    vision_config: VisionConfig | None = None
    processor: Processor | None = None


def open_checkpoint(reference: str, device: torch.device | str = 'cpu') -> Checkpoint:
    """Find and check a checkpoint: every name, shape and type, but no weights are read.

    Raises CheckpointError.
    """
    if reference.startswith(RANDOM):
        checkpoint = Checkpoint(**random_checkpoint(reference, device))
    else:
        checkpoint = _open_folder(resolve(reference), reference)
    _check(checkpoint)
    return checkpoint


def resolve(reference: str) -> Path:
    """Folder of a checkpoint: the folder itself, or the hub's cache, filled when it can be."""
    if Path(reference).is_dir():
        return Path(reference)
    repository, _, revision = reference.partition('@')
    if not re.fullmatch(r'[\w.-]+/[\w.-]+', repository) or Path(reference).is_absolute():
        raise CheckpointError(
            f'checkpoint {reference!r}: no such folder; wanted a folder in the diffusers layout, '
            f'a hub id such as nvidia/Cosmos3-Edge, or {RANDOM}tiny, {RANDOM}edge')
    try:
        return Path(_snapshot(repository, revision or None))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise CheckpointError(
            f'checkpoint {reference!r}: not a folder, not in the hub cache ({HF_HUB_CACHE}) and '
            f'not to be downloaded ({type(error).__name__}); download it first, or give a folder'
        ) from error


def _snapshot(repository: str, revision: str | None) -> str:
    try:
        return snapshot_download(repository, revision=revision)
    except (HfHubHTTPError, OSError) as error:
        with contextlib.suppress(LocalEntryNotFoundError):      # a commit is cached for good
            return snapshot_download(repository, revision=revision, local_files_only=True)
        raise error


def _open_folder(folder: Path, name: str) -> Checkpoint:
    _check_recipe(folder)
    reasoner = _open_reasoner(folder) if (folder / 'vision_encoder').is_dir() else {}
    return Checkpoint(
        name=name,
        config=TransformerConfig.from_json(read_json(folder / 'transformer/config.json'),
                                           str(folder / 'transformer/config.json')),
        vae_config=read_json(folder / 'vae/config.json'),
        transformer=Shards(folder / 'transformer'),
        vae=Shards(folder / 'vae'),
        tokenizer=PromptTokenizer.from_folder(folder / 'text_tokenizer'), **reasoner)


def _open_reasoner(folder: Path) -> dict[str, Any]:
    source = folder / 'config.json'
    return {'vision_config': VisionConfig.from_json(read_json(source), str(source)),
            'vision': Shards(folder / 'vision_encoder'),
            'processor': Processor.from_folder(folder)}


def _check_recipe(folder: Path) -> None:
    """Switches that this package has built in; a checkpoint made for others would go wrong."""
    index = read_json(folder / 'model_index.json')
    for name, wanted in (('use_native_flow_schedule', True), ('default_use_system_prompt', False)):
        if index.get(name) is not wanted:
            raise CheckpointError(f'{folder}/model_index.json: {name} is {index.get(name)!r}, '
                                  f'wanted {wanted}: this checkpoint was made for another recipe')
    scheduler = read_json(folder / 'scheduler/scheduler_config.json')
    if scheduler.get('prediction_type') != 'flow_prediction':
        raise CheckpointError(f'{folder}/scheduler/scheduler_config.json: prediction_type is '
                              f'{scheduler.get("prediction_type")!r}, wanted flow_prediction')


def _check(checkpoint: Checkpoint) -> None:
    source = f'{checkpoint.name}: transformer'
    check_headers(checkpoint.transformer.headers, transformer_shapes(checkpoint.config), source,
                  ignore=UNUSED)
    for name, header in checkpoint.transformer.headers.items():
        if name.startswith(FP32) and header.dtype != torch.float32:
            raise CheckpointError(f'{source}: {name} is {header.dtype}, wanted torch.float32: '
                                  'rounded, it changes the output by several per cent')
    check_vae_config(checkpoint.vae_config, f'{checkpoint.name}: vae/config.json',
                     checkpoint.config.latent_channel)
    check_headers(checkpoint.vae.headers, vae_shapes(checkpoint.vae_config),
                  f'{checkpoint.name}: vae')
    if checkpoint.vision is not None:
        check_headers(checkpoint.vision.headers,
                      vision_shapes(checkpoint.vision_config, checkpoint.config.hidden_size),
                      f'{checkpoint.name}: vision_encoder')


def loading(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype,
            share_with: Iterable[Cosmos3] = ()) -> Generator[None, None, Cosmos3]:
    """Job that loads an opened checkpoint; yields after every tensor.

    With the type FP8 the generation tower computes its products in it and all else in bf16.
    Tensors equal to those of a model in `share_with` (same name, type and device) are not kept
    a second time.
    """
    others = [model for model in share_with if model.device == device]
    fp8 = dtype == FP8
    dtype = torch.bfloat16 if fp8 else dtype
    with torch.device('meta'):
        transformer = Transformer(checkpoint.config)
        vae = AutoencoderKLWan.from_config(dict(checkpoint.vae_config))
        vision = checkpoint.vision and Vision(checkpoint.vision_config,
                                              checkpoint.config.hidden_size)
    yield from _fill(transformer, checkpoint.transformer, device, dtype,
                     [other.transformer for other in others], stored_name)
    for tower in (transformer.und, transformer.gen):
        for layer in tower.layers:
            layer.prepare(fp8=fp8 and tower is transformer.gen)
            yield
    yield from _fill(vae, checkpoint.vae, device, dtype,
                     [other.vae.module for other in others])
    if vision is not None:
        yield from _fill(vision, checkpoint.vision, device, dtype,
                         [other.vision for other in others if other.vision is not None],
                         lambda name: VISION_PREFIX + name)
    return Cosmos3(checkpoint.name, transformer, VAE(vae), checkpoint.tokenizer, device, dtype,
                   vision, checkpoint.processor)


def load(reference: str, device: torch.device | str = 'cpu', dtype: torch.dtype = torch.float32,
         share_with: Iterable[Cosmos3] = ()) -> Cosmos3:
    """Open and load a checkpoint at once; see `loading`. Raises CheckpointError."""
    return finish(loading(open_checkpoint(reference, device), torch.device(device), dtype,
                          share_with))


def _fill(module: nn.Module, weights: Shards | RandomWeights, device: torch.device,
          dtype: torch.dtype, others: list[nn.Module],
          stored: Callable[[str], str] = str) -> Generator[None, None, None]:
    """Give a module built on the meta device its tensors, one a yield."""
    kept = [other.state_dict() for other in others]
    tensors = {}
    for name in module.state_dict():
        wanted = torch.float32 if name.startswith(FP32) else dtype
        tensor = weights.read(stored(name)).to(device, wanted)
        same = (state[name] for state in kept if name in state and _equal(state[name], tensor))
        tensors[name] = next(same, tensor)
        yield
    module.load_state_dict(tensors, assign=True)
    module.requires_grad_(False).eval()


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
