# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel that places keys and values in a cache of slots, against its twin."""
import pytest
import torch

from cosmos3_ros.model.kernels.place_heads import place_heads_torch, place_heads_triton

DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(('heads', 'kv_heads', 'size'), [(4, 2, 32), (3, 3, 16), (2, 1, 128)])
def test_heads_are_rotated_and_land_in_their_slots(heads, kv_heads, size, dtype):
    torch.manual_seed(0)
    tokens, slots, columns = 7, 3, 9
    qkv = torch.randn(tokens, heads + 2 * kv_heads, size, device=DEVICE).to(dtype)
    angles = torch.randn(tokens, size // 2, device=DEVICE).repeat(1, 2)
    where = (torch.randint(slots, (tokens,), device=DEVICE),
             torch.randperm(columns, device=DEVICE)[:tokens])

    def run(place):
        mine, cache = qkv.clone(), torch.full((2, slots, kv_heads, columns, size), 5.0,
                                              device=DEVICE, dtype=dtype)
        parts = mine.split([heads, kv_heads, kv_heads], 1)
        place(*parts, angles.cos().to(dtype), angles.sin().to(dtype), *where, *cache)
        return mine, cache

    (wanted, wanted_cache), (found, found_cache) = run(place_heads_torch), run(place_heads_triton)
    rounding = 1e-6 if dtype == torch.float32 else 2**-7     # one step of it
    assert torch.allclose(found.float(), wanted.float(), atol=rounding, rtol=rounding)
    assert torch.allclose(found_cache.float(), wanted_cache.float(), atol=rounding, rtol=rounding)
    rotated = qkv[:, :heads + kv_heads]
    assert not torch.equal(wanted[:, :heads + kv_heads], rotated)
    assert torch.equal(wanted[:, heads + kv_heads:], qkv[:, heads + kv_heads:])
    assert (found_cache == 5).sum() == (wanted_cache == 5).sum() > 0
