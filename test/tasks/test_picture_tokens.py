# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens of pictures: kept by content, encoded a few at a time."""
import pytest
import torch

from cosmos3_ros.tasks import picture_tokens
from cosmos3_ros.tasks.picture_tokens import PictureTokens
from reasoner import picture


@pytest.fixture
def spans(tiny):
    """Four pictures of 280 patches, so 70 tokens, each."""
    prompt = tiny.processor.encode('What?', [picture(i) for i in range(4)])
    assert [len(span.pixels) for span in prompt.spans] == [280] * 4
    return prompt.spans


@pytest.fixture
def kept(tiny):
    return PictureTokens(tiny.vision, tiny.device)


def test_step_encodes_no_more_than_it_may_and_at_least_one(kept, spans, monkeypatch):
    monkeypatch.setattr(picture_tokens, 'PATCHES_AT_ONCE', 600)
    assert list(kept.encode(spans)) == [span.key for span in spans[:2]]
    monkeypatch.setattr(picture_tokens, 'PATCHES_AT_ONCE', 10)
    assert list(kept.encode(spans[2:])) == [spans[2].key]


def test_encoded_picture_is_kept(tiny, kept, spans):
    encoded = kept.encode(spans[:2])
    for span in spans[:2]:
        alone = tiny.vision(span.pixels, [span.grid])
        assert torch.allclose(kept.get(span), alone, atol=1e-5)
        assert torch.equal(kept.get(span), encoded[span.key])
    assert kept.get(spans[2]) is None


def test_picture_unused_for_longest_is_forgotten(kept, spans, monkeypatch):
    monkeypatch.setattr(picture_tokens, 'TOKENS_KEPT', 3 * 70)
    kept.encode(spans[:3])
    kept.get(spans[0])
    kept.encode(spans[3:])
    assert [kept.get(span) is not None for span in spans] == [True, False, True, True]


def test_picture_too_large_to_keep_is_encoded_all_the_same(kept, spans, monkeypatch):
    monkeypatch.setattr(picture_tokens, 'TOKENS_KEPT', 10)
    assert kept.encode(spans[:1])[spans[0].key].shape[0] == 70
    assert kept.get(spans[0]) is None
