# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens of pictures: kept by content, encoded a few at a time."""
import pytest
import torch

from cosmos3_ros.model import vision
from cosmos3_ros.model.job import finish
from cosmos3_ros.model.recordings import Recordings
from cosmos3_ros.model.vision import Vision
from cosmos3_ros.tasks import picture_tokens
from cosmos3_ros.tasks.picture_tokens import PictureTokens
from reasoner import patches, picture, video
from replayed import Replayed


@pytest.fixture
def spans(tiny):
    """Four pictures of 280 patches, so 70 tokens, each."""
    prompt = tiny.processor.encode('What?', [picture(i) for i in range(4)])
    assert [span.end - span.start for span in prompt.spans] == [70] * 4
    return prompt.spans


@pytest.fixture
def kept(tiny):
    return PictureTokens(tiny.vision, tiny.processor, tiny.device)


@pytest.fixture
def batches(monkeypatch):
    """How many pictures are encoded at once."""
    sizes, encoding = [], Vision.encoding

    def record(vision, patches, places):
        sizes.append(len(patches))
        return encoding(vision, patches, places)

    monkeypatch.setattr(Vision, 'encoding', record)
    return sizes


def alone(model, span):
    return model.vision(patches(model, span), [span.grid])


@pytest.mark.parametrize(('patches', 'wanted'), [
    (600, [2, 2]), (10, [1] * 4), (900, [2, 2]), (5000, [4])])
def test_as_many_are_encoded_at_once_as_may_and_at_least_one(kept, spans, batches, monkeypatch,
                                                             patches, wanted):
    monkeypatch.setattr(picture_tokens, 'PATCHES_AT_ONCE', patches)
    encoded = finish(kept.encoding(spans))
    assert batches == wanted and encoded.keys() == {span.key for span in spans}


def test_pictures_of_one_size_are_encoded_together_in_powers_of_two(tiny, kept, spans, batches):
    others = tiny.processor.encode('What?', [picture(7, 64, 64), picture(8, 64, 64)]).spans
    mixed = [spans[0], others[0], spans[1], spans[2], others[1]]
    encoded = finish(kept.encoding(mixed))
    assert batches == [2, 1, 2]
    for span in mixed:
        assert torch.allclose(encoded[span.key], alone(tiny, span), atol=1e-5)


def test_frames_of_a_video_are_encoded_as_they_come_from_the_processor(tiny, kept, batches):
    frames = tiny.processor.encode('What?', videos=[video(10, 4)]).spans
    encoded = finish(kept.encoding(frames))
    assert batches == [4] and len(encoded) == 4
    for span in frames:
        assert torch.allclose(encoded[span.key], alone(tiny, span), atol=1e-5)


def test_encoded_picture_is_kept(tiny, kept, spans, batches):
    encoded = finish(kept.encoding(spans[:2]))
    for span in spans[:2]:
        assert torch.equal(kept.get(span), encoded[span.key])
    assert kept.get(spans[2]) is None
    again = finish(kept.encoding([spans[1], spans[3], spans[3]]))
    assert batches == [2, 1]
    assert torch.equal(again[spans[1].key], encoded[spans[1].key])
    assert torch.allclose(again[spans[3].key], alone(tiny, spans[3]), atol=1e-5)


def test_picture_unused_for_longest_is_forgotten(kept, spans, monkeypatch):
    monkeypatch.setattr(picture_tokens, 'TOKENS_KEPT', 3 * 70)
    finish(kept.encoding(spans[:3]))
    kept.get(spans[0])
    finish(kept.encoding(spans[3:]))
    assert [kept.get(span) is not None for span in spans] == [True, False, True, True]


def test_picture_too_large_to_keep_is_encoded_all_the_same(kept, spans, monkeypatch):
    monkeypatch.setattr(picture_tokens, 'TOKENS_KEPT', 10)
    assert finish(kept.encoding(spans[:1]))[spans[0].key].shape[0] == 70
    assert kept.get(spans[0]) is None


def test_forgotten_places_are_made_again(tiny, kept, spans, monkeypatch):
    monkeypatch.setattr(picture_tokens, 'GRIDS_KEPT', 1)
    other, = tiny.processor.encode('What?', [picture(7, 64, 64)]).spans
    for span in (spans[0], other, spans[1]):
        encoded = finish(kept.encoding([span]))
        assert torch.allclose(encoded[span.key], alone(tiny, span), atol=1e-5)


@pytest.mark.parametrize(('unit', 'count'), [(10**6, 1), (1, 2)])
@torch.inference_mode()
def test_recorded_batches_encode_other_pictures(tiny, kept, monkeypatch, unit, count):
    monkeypatch.setattr(vision, '_PATCHES_PER_UNIT', unit)
    graphs = []

    def graph():
        graphs.append(Replayed())
        return graphs[-1]

    kept._recordings = Recordings(graph)
    for first in range(0, 8, 2):
        spans = tiny.processor.encode('What?', [picture(first), picture(first + 1)]).spans
        encoded = finish(kept.encoding(spans))
        for span in spans:
            assert torch.allclose(encoded[span.key], alone(tiny, span), atol=1e-5)
    assert [graph.replays for graph in graphs] == [3] * count       # one for each layer, or for all
