# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""diffusers' own transformer, VAE and pipeline at the same shapes, with the same weights.

Every row is set beside the same thing done by this package on the same machine (`ratio`).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from diffusers import (
    AutoencoderKLWan,
    Cosmos3OmniPipeline,
    Cosmos3OmniTransformer,
    UniPCMultistepScheduler,
)
from diffusers.models.transformers.transformer_cosmos3 import Cosmos3VLTextRotaryEmbedding
from diffusers.pipelines.cosmos.pipeline_cosmos3_omni import (
    get_3d_mrope_ids_text_tokens,
    get_3d_mrope_ids_vae_tokens,
)
import torch
from torch import Tensor, nn

from ..engine.device import pick_dtype
from ..model.names import FP32
from ..model.positions import TEMPORAL_COMPRESSION, Layout
from ..model.random_tokenizer import random_tokenizer
from ..model.weights import RandomWeights, Shards
from ..tasks.policy import PolicyRecipe
from .report import Row
from .setting import Setting, seconds
from .vae import decode, latents
from .video import NEGATIVE, PROMPT, stream

STEPS = (2, 4)          # of the pipeline, from which a whole clip is worked out
TIMESTEP = 500


def forwards(setting: Setting) -> list[Row]:
    """One pass of one guidance branch: eager, and with every layer under torch.compile."""
    transformer = _transformer(setting)
    cases = {'policy': _policy_layout(setting.sizes.actions, setting.sizes.large),
             'window': Layout(setting.sizes.rollout.window, *setting.sizes.rollout.latent_size,
                              setting.sizes.rollout.fps, clean_frames=(0,)),
             'image': Layout(1, *setting.sizes.image.latent_size, setting.sizes.image.fps)}
    rows = []
    ours = {name: _ours(setting, layout) for name, layout in cases.items()}
    for kind in ('eager', 'compiled'):
        if kind == 'compiled':
            for layer in transformer.layers:
                layer.compile(dynamic=False)
        for name, layout in cases.items():
            runs = setting.call(_passes, setting, transformer, layout)
            tokens = layout.tokens(transformer.config.latent_patch_size)
            rows.append(Row(f'diffusers_{name}_{kind}', f'one branch, {tokens} tokens after a '
                            f'prompt, {kind}; ours takes {1e3 * ours[name]:.3g} ms',
                            setting.precision, 'latency_ms', 'ms', tuple(1e3 * t for t in runs),
                            ratio=_median(runs) / ours[name]))
    return rows


def vae(setting: Setting) -> list[Row]:
    """The decoder, a latent at a time with its cache, as vae_decode."""
    module = _load(AutoencoderKLWan.from_config, setting.checkpoint('base').vae_config,
                   setting.checkpoint('base').vae, setting)
    ours = decode(setting)[0]

    def take() -> float:
        features: list[Any] = [None] * module._cached_conv_counts['decoder']
        parts = [part[None].to(module.dtype) for part in latents(setting).split(1, dim=1)]

        def step(part: Tensor, first: bool) -> None:
            module.decoder(module.post_quant_conv(part), feat_cache=features, feat_idx=[0],
                           first_chunk=first)
        step(parts[0], True)
        step(parts[0], False)
        return seconds(setting.device, lambda: [step(part, False) for part in parts[1:]]) / len(
            parts[1:])
    setting.call(take)
    runs = tuple(1e3 * setting.call(take) for _ in range(setting.runs))
    return [Row('diffusers_vae_decode', ours.shape, setting.precision, 'ms_per_latent', 'ms', runs,
                ratio=_median(runs) / ours.value)]


def clip(setting: Setting) -> list[Row]:
    """The eager pipeline from text: timed with few steps, scaled to all of them."""
    recipe, frames = replace(setting.sizes.rollout, mode='clip'), setting.sizes.clip_frames
    checkpoint = setting.checkpoint('base')
    pipeline = Cosmos3OmniPipeline(
        _transformer(setting), random_tokenizer(),      # the words of a prompt cost no time
        _load(AutoencoderKLWan.from_config, checkpoint.vae_config, checkpoint.vae, setting),
        UniPCMultistepScheduler(prediction_type='flow_prediction', use_flow_sigmas=True,
                                flow_shift=recipe.shift),
        enable_safety_checker=False, default_use_system_prompt=False, use_native_flow_schedule=True)
    pipeline.set_progress_bar_config(disable=True)

    def take(steps: int) -> float:
        return seconds(setting.device, lambda: pipeline(
            PROMPT, NEGATIVE, num_frames=frames, height=recipe.height, width=recipe.width,
            fps=recipe.fps, num_inference_steps=steps, guidance_scale=recipe.guidance,
            output_type='np', generator=torch.Generator().manual_seed(0)))
    setting.call(take, 1)
    few, more = ([setting.call(take, steps) for _ in range(2)] for steps in STEPS)
    runs = tuple(a + (recipe.steps - STEPS[0]) * (b - a) / (STEPS[1] - STEPS[0])
                 for a, b in zip(few, more))
    model = setting.model('base')
    stream(setting, model, replace(recipe, steps=min(2, recipe.steps)), None, frames, seed=0)
    ours = stream(setting, model, recipe, None, frames, seed=1)[1]
    return [Row('diffusers_clip_t2v_121', f'{frames} frames of {recipe.width}x{recipe.height}, '
                f'{recipe.steps} steps SCALED from runs of {STEPS[0]} and {STEPS[1]}, eager; ours '
                f'takes {ours:.3g} s', setting.precision, 'wall_s', 's', runs,
                ratio=_median(runs) / ours)]


def _median(values: tuple[float, ...]) -> float:
    return sorted(values)[len(values) // 2]


def _policy_layout(recipe: PolicyRecipe, size: tuple[int, int]) -> Layout:
    return Layout((recipe.num_frames - 1) // TEMPORAL_COMPRESSION + 1, size[1] // 16, size[0] // 16,
                  recipe.fps, clean_frames=(0,), rows=recipe.num_frames, clean_rows=(0,))


def _ours(setting: Setting, layout: Layout) -> float:
    """Median seconds of this package's pass of one branch."""
    model = setting.model('base')
    branches = setting.call(model.branches, [model.tokenizer.encode(PROMPT)], layout)
    video, rows = _inputs(model.config, layout, setting.device)

    def take() -> list[float]:
        return _timed(setting, lambda: list(model.transformer.velocity(
            branches, video, TIMESTEP, rows, 0)))
    return _median(tuple(setting.call(take)))


def _timed(setting: Setting, call: Callable[[], Any]) -> list[float]:
    for _ in range(3):
        call()
    return [seconds(setting.device, call) for _ in range(2 * setting.runs)]


def _inputs(config: Any, layout: Layout, device: torch.device) -> tuple[Tensor, Tensor | None]:
    video = torch.randn(config.latent_channel, layout.frames, layout.height, layout.width,
                        device=device)
    rows = torch.randn(layout.rows, config.action_dim, device=device) if layout.rows else None
    return video, rows


def _transformer(setting: Setting) -> Cosmos3OmniTransformer:
    checkpoint = setting.checkpoint('base')
    config = {field.name: getattr(checkpoint.config, field.name)
              for field in fields(checkpoint.config)} | {
                  'patch_latent_dim': checkpoint.config.patch_latent_dim}
    network = _load(Cosmos3OmniTransformer.from_config, config, checkpoint.transformer, setting)
    network.rotary_emb = Cosmos3VLTextRotaryEmbedding(      # its buffer is in no checkpoint
        config['head_dim'], config['rope_theta'], config['rope_axes_dim'])
    return network


def _load(make: Callable[[dict], nn.Module], config: Any, weights: Shards | RandomWeights,
          setting: Setting) -> nn.Module:
    with torch.device('meta'):
        module = make(dict(config))
    dtype = pick_dtype(setting.precision, setting.device)
    tensors = {name: weights.read(name).to(
        setting.device, torch.float32 if name.startswith(FP32) else dtype)
        for name in module.state_dict()}
    module.load_state_dict(tensors, assign=True)
    return module.requires_grad_(False).eval()


def _passes(setting: Setting, transformer: Cosmos3OmniTransformer,
            layout: Layout) -> tuple[float, ...]:
    inputs = _packed(transformer, len(random_tokenizer().encode(PROMPT)), layout, setting.device,
                     pick_dtype(setting.precision, setting.device))
    return tuple(_timed(setting, lambda: transformer(**inputs)))


def _packed(transformer: Cosmos3OmniTransformer, text: int, layout: Layout, device: torch.device,
            dtype: torch.dtype) -> dict[str, Any]:
    """Arguments of diffusers' forward for a layout after a prompt of so many tokens."""
    config = transformer.config
    grid = layout.grid(config.latent_patch_size)
    stride = grid[1] * grid[2]
    end = text + grid[0] * stride
    video, rows = _inputs(config, layout, device)
    noisy = torch.tensor([i for i in range(layout.frames) if i not in layout.clean_frames])
    noisy_tokens = (text + noisy[:, None] * stride + torch.arange(stride)).flatten()
    inputs = {
        'input_ids': torch.arange(text) % config.vocab_size, 'text_indexes': torch.arange(text),
        'position_ids': _positions(config, text, grid, layout), 'und_len': text,
        'sequence_length': end + layout.rows, 'vision_tokens': [video[None].to(dtype)],
        'vision_token_shapes': [grid], 'vision_sequence_indexes': torch.arange(text, end),
        'vision_mse_loss_indexes': noisy_tokens, 'vision_noisy_frame_indexes': [noisy],
        'vision_timesteps': torch.full((len(noisy_tokens),), TIMESTEP)}
    if rows is not None:
        noisy_rows = torch.arange(1, layout.rows)
        inputs |= {
            'action_tokens': [rows.to(dtype)], 'action_token_shapes': [(layout.rows, 1, 1)],
            'action_sequence_indexes': torch.arange(end, end + layout.rows),
            'action_mse_loss_indexes': end + noisy_rows,
            'action_noisy_frame_indexes': [noisy_rows],
            'action_timesteps': torch.full((len(noisy_rows),), TIMESTEP),
            'action_domain_ids': [torch.tensor([0])]}
    return {name: _on(device, value) for name, value in inputs.items()}


def _on(device: torch.device, value: Any) -> Any:
    if isinstance(value, list):
        return [_on(device, part) for part in value]
    return value.to(device) if isinstance(value, Tensor) else value


def _positions(config: Any, text: int, grid: tuple[int, int, int], layout: Layout) -> Tensor:
    words, start = get_3d_mrope_ids_text_tokens(text, 0, use_float_positions=True)
    common = {'temporal_offset': start + config.unified_3d_mrope_temporal_modality_margin,
              'fps': layout.fps, 'base_fps': float(config.base_fps)}
    parts = [words, get_3d_mrope_ids_vae_tokens(*grid, temporal_compression_factor=4, **common)[0]]
    if layout.rows:
        parts.append(get_3d_mrope_ids_vae_tokens(
            layout.rows, 1, 1, temporal_compression_factor=1, base_temporal_compression_factor=4,
            start_frame_offset=0, **common)[0])
    return torch.cat(parts, 1)
