# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The fused operations of a generation layer against their twins in plain torch."""
import pytest
import torch

from cosmos3_ros.model.kernels.add_norm import add_norm_torch, add_norm_triton
from cosmos3_ros.model.kernels.quantize import FP8, quantize_torch, quantize_triton
from cosmos3_ros.model.kernels.relu2 import relu2_torch, relu2_triton
from cosmos3_ros.model.kernels.split_heads import split_heads_torch, split_heads_triton

DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'     # there by Triton's interpreter
TYPES = {torch.float32: 1e-6, torch.bfloat16: 2**-7}        # one step of it
HALF = torch.bfloat16 if DEVICE == 'cuda' else torch.float16
SIZES = [(3, 64), (5, 48), (2, 2048)]


def draw(*shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE).to(dtype)


def assert_same(ours, wanted, tolerance):
    assert ours.dtype == wanted.dtype and ours.shape == wanted.shape
    error = (ours.float() - wanted.float()).abs()
    assert (error <= tolerance * wanted.float().abs() + 1e-6).all()


def assert_close(ours, wanted, tolerance):
    """Equal up to a part of the largest value."""
    assert ours.dtype == wanted.dtype and ours.shape == wanted.shape
    assert (ours.float() - wanted.float()).abs().max() <= tolerance * wanted.float().abs().max()


def assert_quantized(ours, wanted):
    """Equal in the whole, and on a device up to a step of the 8-bit type.

    The interpreter loses a carry here and there when it rounds to 8 bits.
    """
    assert_same(ours.scale, wanted.scale, 1e-5)
    values, other = (q.values.float() * q.scale for q in (ours, wanted))
    assert ours.values.dtype == FP8
    assert (values - other).norm() / other.norm() < 0.2
    if DEVICE == 'cuda':
        assert ((values - other).abs() <= 2**-3 * other.abs() + ours.scale * 2**-8).all()


@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize('dtype', TYPES)
@pytest.mark.parametrize('has_y', [True, False])
def test_add_norm(size, dtype, has_y):
    x, y = draw(*size), draw(*size, dtype=dtype) if has_y else None
    weight, twin = draw(size[1], dtype=dtype), x.clone()
    assert_same(add_norm_triton(x, y, weight, 1e-5, dtype),
                add_norm_torch(twin, y, weight, 1e-5, dtype), TYPES[dtype])
    assert torch.equal(x, twin)


@pytest.mark.parametrize('size', SIZES)
def test_add_norm_in_fp8(size):
    x, weight = draw(*size), draw(size[1])
    assert_quantized(add_norm_triton(x.clone(), None, weight, 1e-5, FP8),
                     add_norm_torch(x, None, weight, 1e-5, FP8))


@pytest.mark.parametrize('size', [*SIZES, (2, 9216)])
@pytest.mark.parametrize('dtype', TYPES)
def test_relu2(size, dtype):
    x = draw(*size, dtype=dtype)
    assert_same(relu2_triton(x.clone(), dtype), relu2_torch(x, dtype), TYPES[dtype])


@pytest.mark.parametrize('size', SIZES)
def test_relu2_of_a_wider_type(size):
    x = draw(*size)
    found = relu2_triton(x.clone(), HALF)
    assert found.dtype == HALF
    assert_same(found, relu2_torch(x, HALF), 2**-7)


@pytest.mark.parametrize('size', SIZES)
def test_relu2_in_fp8(size):
    x = draw(*size)
    assert_quantized(relu2_triton(x, FP8), relu2_torch(x, FP8))


@pytest.mark.parametrize('size', SIZES)
def test_quantize(size):
    x = draw(*size, dtype=torch.bfloat16)
    x[0] = 0                                # a row without a largest value
    assert_quantized(quantize_triton(x), quantize_torch(x))
    error = quantize_torch(x).values.float() * quantize_torch(x).scale - x.float()
    assert error.abs().max() <= 2**-4 * x.float().abs().max()


@pytest.mark.parametrize('heads, kv_heads, size', [(4, 2, 16), (16, 8, 128), (3, 1, 32)])
@pytest.mark.parametrize('dtype', TYPES)
def test_split_heads(heads, kv_heads, size, dtype):
    tokens = 3
    qkv = draw(tokens, (heads + 2 * kv_heads) * size, dtype=dtype)
    weights = draw(2, size, dtype=dtype)
    angles = draw(tokens, size // 2).repeat(1, 2)
    results = []
    for split in (split_heads_triton, split_heads_torch):
        cache = torch.zeros(2, tokens + 2, kv_heads, size, device=DEVICE, dtype=dtype)
        q = split(qkv, *weights, 1e-5, angles.cos(), angles.sin(), *cache[:, 1:-1])
        assert not cache[:, [0, -1]].any()
        results.append((q, cache))
    for ours, wanted in zip(*results):
        # a difference of products: as exact as its terms
        error = (ours.float() - wanted.float()).abs().max()
        assert error <= TYPES[dtype] * wanted.float().abs().max()
        assert ours.dtype == dtype and ours.shape == wanted.shape
    assert not torch.equal(results[0][1][0, 1:-1], torch.zeros_like(results[0][1][0, 1:-1]))
