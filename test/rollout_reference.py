# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts by diffusers' modules alone, with the attention between windows as an explicit mask."""
from collections.abc import Iterable
import contextlib
from dataclasses import dataclass

from diffusers.pipelines.cosmos.pipeline_cosmos3_omni import get_3d_mrope_ids_vae_tokens
import numpy as np
import torch

from diffusers_reference import scheduler

MARGIN = 15000      # time positions between a text and its video


@dataclass(frozen=True)
class Window:
    """Latents `first` to `end` of a video: they attend to a text, to `kept` and to themselves."""

    first: int
    end: int
    kept: frozenset[int]
    text: int = 0


def picture(height: int = 60, width: int = 90, seed: int = 3) -> np.ndarray:
    """Blocks of colour, uint8 [H, W, 3]."""
    blocks = np.random.RandomState(seed).randint(0, 256, (-(-height // 10), -(-width // 10), 3))
    return blocks.astype(np.uint8).repeat(10, 0).repeat(10, 1)[:height, :width]


def kept_latents(count: int, history: int, anchor: int) -> frozenset[int]:
    """What is left of the first `count` latents: the first few and the newest."""
    return frozenset(i for i in range(count) if i < anchor or i >= count - history)


class MaskedAttention:
    """diffusers' attention of both towers with boolean masks, True where a query may look."""

    _attention_backend = _parallel_config = None

    def __init__(self, text_mask: torch.Tensor, video_mask: torch.Tensor):
        self.text_mask, self.video_mask = text_mask, video_mask

    def __call__(self, attn, und_seq, gen_seq, rotary_emb):
        tables = [table[:, None] for table in rotary_emb]
        q, k, v = (layer(und_seq).unflatten(-1, (-1, attn.head_dim))
                   for layer in (attn.to_q, attn.to_k, attn.to_v))
        q, k = attn.norm_q(q), attn.norm_k(k)
        read = k if attn.k_norm_und_for_gen is None else attn.k_norm_und_for_gen(k)
        q, k, read = (_rotate(x, *tables[:2]) for x in (q, k, read))
        text = _attend(q, k, v, self.text_mask)

        own = [layer(gen_seq).unflatten(-1, (-1, attn.head_dim))
               for layer in (attn.add_q_proj, attn.add_k_proj, attn.add_v_proj)]
        own_q, own_k = (_rotate(x, *tables[2:])
                        for x in (attn.norm_added_q(own[0]), attn.norm_added_k(own[1])))
        video = _attend(own_q, torch.cat([read, own_k]), torch.cat([v, own[2]]), self.video_mask)
        return attn.to_out(text), attn.to_add_out(video)


def _rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def _attend(q, k, v, mask):
    repeat = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(repeat, 1) for x in (k, v))
    scores = torch.einsum('qhd,khd->hqk', q, k) / q.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask, float('-inf')).softmax(-1)
    return torch.einsum('hqk,khd->qhd', weights, v).flatten(1)


def masks(lengths: list[int], windows: list[Window], stride: int):
    """[texts, texts] and [video, texts + video] of several texts and windows in one sequence."""
    text_mask = torch.block_diag(*(torch.ones(n, n).tril() for n in lengths)).bool()
    rows = []
    for window in windows:
        texts = [torch.full((n,), index == window.text) for index, n in enumerate(lengths)]
        seen = {*window.kept, *range(window.first, window.end)}
        latents = torch.tensor([i in seen for i in range(windows[-1].end)])
        row = torch.cat([*texts, latents.repeat_interleave(stride)])
        rows.append(row.expand((window.end - window.first) * stride, -1))
    return text_mask, torch.cat(rows)


@contextlib.contextmanager
def attention(transformer, processor):
    """Run with another attention processor in every layer."""
    before = [layer.self_attn.processor for layer in transformer.layers]
    try:
        for layer in transformer.layers:
            layer.self_attn.processor = processor
        yield
    finally:
        for layer, old in zip(transformer.layers, before):
            layer.self_attn.processor = old


@torch.no_grad()
def dense_velocity(transformer, texts: list[list[int]], windows: list[Window],
                   video: torch.Tensor, clean: Iterable[int], timestep: float, fps: float):
    """Velocity of a whole video [C, T, h, w], all its windows and texts in one sequence.

    The video starts a margin behind the first text, whichever text a window attends to.
    """
    length, frames = sum(map(len, texts)), video.shape[1]
    grid = frames, -(-video.shape[2] // 2), -(-video.shape[3] // 2)
    stride = grid[1] * grid[2]
    end = length + frames * stride
    clean = set(clean)
    noisy = torch.tensor([i for i in range(frames) if i not in clean], dtype=torch.long)
    noisy_tokens = (length + noisy[:, None] * stride + torch.arange(stride)).flatten()
    positions = [torch.arange(len(text)).float().expand(3, -1) for text in texts]
    positions.append(get_3d_mrope_ids_vae_tokens(
        *grid, temporal_offset=len(texts[0]) + MARGIN, fps=fps, base_fps=24.0,
        temporal_compression_factor=4)[0])
    processor = MaskedAttention(*masks([len(text) for text in texts], windows, stride))
    with attention(transformer, processor):
        out = transformer(
            input_ids=torch.tensor([i for text in texts for i in text]),
            text_indexes=torch.arange(length), position_ids=torch.cat(positions, 1),
            und_len=length, sequence_length=end, vision_tokens=[video[None]],
            vision_token_shapes=[grid], vision_sequence_indexes=torch.arange(length, end),
            vision_mse_loss_indexes=noisy_tokens, vision_noisy_frame_indexes=[noisy],
            vision_timesteps=torch.full((len(noisy_tokens),), timestep))
    return out.sample[0][0]


def sample(velocity, video, clean: int, steps: int, shift: float):
    """Denoise with diffusers' scheduler; the first `clean` latents are put back every step."""
    solver, given = scheduler(steps, shift), video[:, :clean].clone()
    for timestep in solver.timesteps.tolist():
        video = solver.step(velocity(video, timestep)[None], timestep, video[None],
                            return_dict=False)[0][0]
        video[:, :clean] = given
    return video


def guided(branches, scale: float):
    """Classifier-free guidance over [conditional] or [conditional, unconditional]."""
    if scale == 1:
        return branches[0]
    return branches[1] + scale * (branches[0] - branches[1])


@torch.no_grad()
def decode(vae, latents: torch.Tensor) -> torch.Tensor:
    """All frames [3, F, H, W] in [-1, 1] of a latent video in one call."""
    mean, std = (torch.tensor(values).view(-1, 1, 1, 1)
                 for values in (vae.config.latents_mean, vae.config.latents_std))
    return vae.decode((latents * std + mean)[None]).sample[0]


def finish(job) -> int:
    """Drive a job to its end; how often it yielded."""
    return sum(1 for _ in job)
