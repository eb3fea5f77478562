# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The decoder against transformers: logits after a prompt, whole and in chunks."""
import pytest
import torch

from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.decoder import Decoder
from reasoner import QUESTIONS, patches, reference_inputs


def prefill(model, question, chunk):
    prompt = model.processor.encode(question.text, question.pictures, question.videos,
                                    question.system, question.thinking)
    decoder = Decoder(model.transformer, slots=3, length=400)
    x = decoder.embed(torch.from_numpy(prompt.ids))
    for span in prompt.spans:
        x[span.start:span.end] = model.vision(patches(model, span), [span.grid])
    for start in range(0, len(x), chunk):
        part = slice(start, start + chunk)
        logits = decoder.prefill(1, start, x[part], *decoder.rotary(prompt.positions[:, part]))
    return logits[0]


@pytest.mark.parametrize('chunk', [400, 7, 64])
@pytest.mark.parametrize('name', QUESTIONS)
def test_logits_are_those_of_transformers(tiny, reference_reasoner, reference_processor, name,
                                          chunk):
    with torch.inference_mode():
        logits = prefill(tiny, QUESTIONS[name], chunk)
        wanted = reference_reasoner(**reference_inputs(reference_processor, QUESTIONS[name]))
    assert torch.allclose(logits, wanted.logits[0, -1], atol=1e-4)
    assert logits.dtype == torch.float32 and logits.std() > 0.1


def test_bf16_is_near_fp32(tiny, tiny_folder):
    rounded = load(str(tiny_folder), dtype=torch.bfloat16)
    with torch.inference_mode():
        wanted, logits = (prefill(model, QUESTIONS['three pictures'], 64)
                          for model in (tiny, rounded))
    assert logits.dtype == torch.float32
    assert (logits - wanted).norm() < 0.05 * wanted.norm()
