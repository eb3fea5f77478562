# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Keys and values of prompts are computed once and kept."""
import pytest
import torch

from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.cosmos3 import PREFIXES_KEPT
from cosmos3_ros.model.transformer import Transformer


@pytest.fixture
def prefills(monkeypatch):
    """Prompts that went through the understanding tower."""
    seen, prefill = [], Transformer.prefill

    def record(network, token_ids):
        seen.append(token_ids.tolist())
        return prefill(network, token_ids)

    monkeypatch.setattr(Transformer, 'prefill', record)
    return seen


def test_prompt_is_computed_once(tiny_folder, prefills):
    model = load(str(tiny_folder))
    first, again = model.prefix([30, 31, 32]), model.prefix([30, 31, 32])
    other = model.prefix([30, 31])
    assert prefills == [[30, 31, 32], [30, 31]]
    assert torch.equal(first.keys, again.keys) and torch.equal(first.values, again.values)
    assert (first.length, other.length) == (3, 2)


def test_prompt_in_use_is_kept_and_the_oldest_forgotten(tiny_folder, prefills):
    model = load(str(tiny_folder))
    for token in range(100, 100 + PREFIXES_KEPT):
        model.prefix([token])
    model.prefix([100])
    model.prefix([99])      # pushes out 101, the one unused for longest
    assert len(prefills) == PREFIXES_KEPT + 1
    model.prefix([100])
    assert len(prefills) == PREFIXES_KEPT + 1
    model.prefix([101])
    assert prefills[-1] == [101]


def test_understanding_is_causal(tiny):
    whole = tiny.transformer.prefill(torch.tensor([50, 60, 70, 80]))
    part = tiny.transformer.prefill(torch.tensor([50, 60, 70]))
    assert torch.allclose(whole.keys[:, :3], part.keys, atol=1e-5)
    assert torch.allclose(whole.values[:, :3], part.values, atol=1e-5)
