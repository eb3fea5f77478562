# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A decode step in kernels against the decoder's plain torch, in fp32."""
import pytest
import torch

pytest.importorskip('triton')
from cosmos3_ros.model.decode_step import DecodeStep, State  # noqa: E402
from cosmos3_ros.model.decoder import Decoder, Entrant  # noqa: E402
from cosmos3_ros.model.job import finish  # noqa: E402
from cosmos3_ros.model.prompt_batch import PromptBatch  # noqa: E402
from cosmos3_ros.model.sampling import Choice  # noqa: E402

DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
PROMPTS = ['Pick up the cube.', 'Close the drawer. ' * 9, 'What is on the table?']


def started(model, rows):
    """A decoder with a prompt read in each of some slots, all but the second taking part."""
    prompts = [model.processor.encode(text) for text in PROMPTS[:rows]]
    decoder = Decoder(model.transformer, rows, 160)
    longest = max(len(prompt.ids) for prompt in prompts)
    batch = PromptBatch.of(prompts, range(rows), longest, decoder.length, DEVICE)
    logits = finish(decoder.read(batch, decoder.embed(batch.ids)))
    decoder.join([Entrant(slot, len(prompt.ids), prompt.next_position, Choice())
                  for slot, prompt in enumerate(prompts)], logits)
    if rows > 1:
        decoder.leave(1)
    return decoder


@pytest.fixture(scope='module')
def model():
    from cosmos3_ros.model.checkpoint import load
    return load('random:tiny', DEVICE)


@pytest.mark.parametrize('rows', [1, 3])
@torch.inference_mode()
def test_step_in_kernels_is_that_of_plain_torch(model, rows):
    plain, fused = started(model, rows), started(model, rows)
    step = DecodeStep(model.transformer, State(
        fused._token, fused._filled, fused._position, fused._active, fused._sampling.step,
        fused._keys, fused._values, fused._cos, fused._sin))
    part = plain._active.bool().cpu()
    assert part.tolist() == [True, False, True][:rows]
    assert step.greedy(rows)[part].tolist() == plain.step(rows, 160, False)[part].tolist()
    assert torch.equal(fused._counts[:, part], plain._counts[:, part])
    logits, wanted = step.logits(rows)[part], plain._plain(rows, 160)[part]
    assert (logits - wanted).abs().max() <= 2e-6 * wanted.abs().max()
    for mine, other in ((fused._keys, plain._keys), (fused._values, plain._values)):
        for slot in part.nonzero()[:, 0]:
            end = plain._filled[slot] + 1
            assert torch.allclose(mine[:, slot, :, :end], other[:, slot, :, :end], atol=1e-5)
