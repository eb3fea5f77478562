# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""FLOP formulas against what PyTorch counts while the networks run."""
from contextlib import contextmanager

from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d
import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from cosmos3_ros.bench.flops import (
    answer_flops,
    decode_flops,
    encode_flops,
    prefill_flops,
    velocity_flops,
    vision_flops,
    write_flops,
)
from cosmos3_ros.model.checkpoint import load, open_checkpoint
from cosmos3_ros.model.job import finish
from cosmos3_ros.model.positions import Layout
from cosmos3_ros.model.transformer import PROMPT_STEP

PROMPT = list(range(40, 130, 3))
LAYOUT = Layout(3, 5, 6, 24.0, clean_frames=(0,), rows=9, clean_rows=(0,))
PATCHES = 3 * 3 * 3     # of LAYOUT: an odd height is padded


CPU_ATTENTION = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu:
                 lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)}


@contextmanager
def counted():
    """Counts the products inside, those of attention too: on a CPU it has no formula of PyTorch."""
    with torch.inference_mode(), FlopCounterMode(
            display=False, custom_mapping=CPU_ATTENTION) as mode:
        yield mode


@pytest.fixture
def plane_convolutions(monkeypatch):
    """Convolutions of diffusers' VAE that take no zeros from before a video."""
    whole = WanCausalConv3d.forward

    def forward(layer, x, cache_x=None):
        if cache_x is not None or x.shape[2] > 1:
            return whole(layer, x, cache_x)
        width, _, height, *_ = layer._padding
        return F.conv2d(x[:, :, 0], layer.weight[:, :, -1], layer.bias, layer.stride[1:],
                        (height, width))[:, :, None]
    monkeypatch.setattr(WanCausalConv3d, 'forward', forward)


@pytest.fixture(scope='module', params=['random:tiny', 'random:tiny-nano'])
def model(request):
    return load(request.param)


@pytest.mark.parametrize('before', [0, len(PROMPT)])
def test_velocity(model, before):
    video = torch.zeros(model.config.latent_channel, 3, 5, 6)
    with model.branches([PROMPT], LAYOUT) as branches, counted() as mode:
        branches.memories[0].length = before    # of the keys behind which the tokens stand
        finish(model.transformer.velocity(branches, video, 500, torch.zeros(9, 64), 8))
    wanted = velocity_flops(model.config, PATCHES, 9, before)
    assert mode.get_total_flops() == wanted.total


def test_write_leaves_out_what_nobody_reads(model):
    layout = Layout(3, 5, 6, 24.0)
    video = torch.zeros(model.config.latent_channel, 3, 5, 6)
    with model.branches([PROMPT], layout) as branches, counted() as mode:
        finish(model.transformer.write(branches, video))
    wanted = write_flops(model.config, PATCHES, len(PROMPT)).total
    queries = 2 * PATCHES * model.config.hidden_size * (
        model.config.num_attention_heads * model.config.head_dim)
    assert mode.get_total_flops() - wanted in (0, queries)      # of the last layer, not needed


def test_prefill_counts_the_causal_half_of_attention(model):
    config, tokens = model.config, PROMPT_STEP      # nothing is padded
    with counted() as mode:
        model.transformer.prefill(torch.arange(tokens))
    wanted = prefill_flops(config, tokens)
    whole = wanted.attention * 2 * tokens / (tokens + 1)        # a mask hides half of the products
    queries = 2 * tokens * config.hidden_size * config.num_attention_heads * config.head_dim
    assert mode.get_total_flops() - (wanted.linear + whole) in (0, queries)


def test_picture(tiny):
    rows, columns = 4, 6
    with counted() as mode:
        tiny.vision(torch.zeros(rows * columns, 3 * 16**2), [(rows, columns)])
    wanted = vision_flops(tiny.vision.config, tiny.config.hidden_size, rows * columns)
    assert mode.get_total_flops() == wanted.total


def test_prompt_that_is_answered(tiny, reference_reasoner):
    tokens = len(PROMPT)
    with counted() as mode:
        reference_reasoner(input_ids=torch.tensor([PROMPT]), use_cache=False, logits_to_keep=1)
    wanted = answer_flops(tiny.config, tokens)
    whole = wanted.attention * 2 * tokens / (tokens + 1)
    # transformers makes its rotary angles by a product: of one position and head_dim / 2, 3 axes
    angles = mode.get_total_flops() - (wanted.linear + whole + wanted.other)
    assert angles == 3 * 2 * tokens * tiny.config.head_dim / 2


@pytest.mark.parametrize('height, width', [(64, 96), (32, 64)])
def test_vae(plane_convolutions, height, width):
    config = open_checkpoint('random:tiny').vae_config
    vae = AutoencoderKLWan.from_config(config).eval()
    latent = torch.zeros(1, 16, 1, height // 16, width // 16)
    features = [None] * vae._cached_conv_counts['decoder']
    with counted() as mode:
        vae.encode(torch.zeros(1, 3, 1, height, width))
    assert mode.get_total_flops() == encode_flops(config, height, width).total
    decoded = []
    for index in range(3):
        with counted() as mode:
            vae.decoder(vae.post_quant_conv(latent), feat_cache=features, feat_idx=[0],
                        first_chunk=index == 0)
        decoded.append(mode.get_total_flops())
    assert [decoded[0], decoded[2]] == [f.total for f in decode_flops(config, height, width)]


def test_a_latent_of_the_published_sizes_takes_what_a_profiler_counts():
    """29.4 TFLOP for four frames of 832x480."""
    config = open_checkpoint('random:edge').vae_config
    assert decode_flops(config, 480, 832)[1].total == pytest.approx(29.4e12, rel=0.02)
