# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The decoder against transformers: logits after a prompt, whole, in chunks and in batches."""
import pytest
import torch

from cosmos3_ros.model import prompt_batch
from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.decoder import Decoder, Entrant
from cosmos3_ros.model.job import finish
from cosmos3_ros.model.positions import rotary_table
from cosmos3_ros.model.prompt_batch import PromptBatch, padded_length
from cosmos3_ros.model.recordings import Recordings
from cosmos3_ros.model.sampling import Choice
from reasoner import QUESTIONS, patches, reference_inputs
from replayed import Replayed

CPU = torch.device('cpu')
SLOTS, LENGTH = 5, 400


def encode(model, name):
    question = QUESTIONS[name]
    return model.processor.encode(question.text, question.pictures, question.videos,
                                  question.system, question.thinking)


def embed(model, decoder, prompt):
    x = decoder.embed(torch.from_numpy(prompt.ids))
    for span in prompt.spans:
        x[span.start:span.end] = model.vision(patches(model, span), [span.grid])
    return x


def prefill(model, name, chunk, slot=1, decoder=None):
    prompt = encode(model, name)
    decoder = decoder or Decoder(model.transformer, SLOTS, LENGTH)
    x = embed(model, decoder, prompt)
    for start in range(0, len(x), chunk):
        part = slice(start, start + chunk)
        logits = decoder.prefill(slot, start, x[part], *decoder.rotary(prompt.positions[:, part]))
    return logits[0]


@pytest.mark.parametrize('chunk', [400, 7, 64])
@pytest.mark.parametrize('name', QUESTIONS)
def test_logits_are_those_of_transformers(tiny, reference_reasoner, reference_processor, name,
                                          chunk):
    with torch.inference_mode():
        logits = prefill(tiny, name, chunk)
        wanted = reference_reasoner(**reference_inputs(reference_processor, QUESTIONS[name]))
    assert torch.allclose(logits, wanted.logits[0, -1], atol=1e-4)
    assert logits.dtype == torch.float32 and logits.std() > 0.1


def test_bf16_is_near_fp32(tiny, tiny_folder):
    rounded = load(str(tiny_folder), dtype=torch.bfloat16)
    with torch.inference_mode():
        wanted, logits = (prefill(model, 'three pictures', 64)
                          for model in (tiny, rounded))
    assert logits.dtype == torch.float32
    assert (logits - wanted).norm() < 0.05 * wanted.norm()


def read(model, decoder, names, slots, length=None):
    """The logits of prompts that are read as one batch."""
    prompts = [encode(model, name) for name in names]
    length = length or max(len(prompt.ids) for prompt in prompts)
    batch = PromptBatch.of(prompts, slots, length, decoder.length, CPU)
    x = decoder.embed(batch.ids)
    for row, prompt in enumerate(prompts):
        x[row * length:row * length + len(prompt.ids)] = embed(model, decoder, prompt)
    return finish(decoder.read(batch, x))


def write(model, decoder, slots, names, logits, steps=12):
    """Greedy tokens of some slots, [slots][1 + steps]."""
    prompts = [encode(model, name) for name in names]
    first = decoder.join([Entrant(slot, len(prompt.ids), prompt.next_position, Choice())
                          for slot, prompt in zip(slots, prompts, strict=True)], logits)
    rest = [decoder.step(SLOTS, LENGTH, False)[list(slots)] for _ in range(steps)]
    return torch.stack([first, *rest]).T.tolist()


def near(found, wanted):
    return (found - wanted).abs().max() <= 1e-5 * wanted.abs().max()


BATCHES = [['text'], ['picture', 'three pictures'],
           ['video', 'no thinking', 'picture', 'text']]


@pytest.mark.parametrize('padding', [0, 37])
@pytest.mark.parametrize('names', BATCHES, ids=len)
def test_batch_of_prompts_is_read_as_each_is_alone(tiny, names, padding):
    slots = [4, 0, 2, 1][:len(names)]
    with torch.inference_mode():
        decoder = Decoder(tiny.transformer, SLOTS, LENGTH)
        longest = max(len(encode(tiny, name).ids) for name in names)
        logits = read(tiny, decoder, names, slots, longest + padding)
        tokens = write(tiny, decoder, slots, names, logits)
        for row, (name, slot) in enumerate(zip(names, slots, strict=True)):
            alone = Decoder(tiny.transformer, SLOTS, LENGTH)
            wanted = prefill(tiny, name, LENGTH, slot, alone)
            count = len(encode(tiny, name).ids)
            for mine, other in ((decoder._keys, alone._keys), (decoder._values, alone._values)):
                assert near(mine[:, slot, :, :count], other[:, slot, :, :count])
            assert near(logits[row], wanted)
            assert tokens[row] == write(tiny, alone, [slot], [name], wanted[None])[0]


def test_padding_touches_nothing_but_the_column_kept_for_it(tiny):
    with torch.inference_mode():
        decoder = Decoder(tiny.transformer, SLOTS, LENGTH)
        for cache in (decoder._keys, decoder._values):
            cache.fill_(7.0)
        names, slots = ['text', 'picture'], [3, 1]
        read(tiny, decoder, names, slots, 300)
        lengths = dict(zip(slots, (len(encode(tiny, name).ids) for name in names), strict=True))
        for cache in (decoder._keys, decoder._values):
            for slot in range(SLOTS):
                assert (cache[:, slot, :, lengths.get(slot, 0):LENGTH] == 7).all()


@pytest.mark.parametrize(('unit', 'count'), [(10**6, 1), (1, 2)])
def test_batches_are_recorded_once_and_replayed_for_other_prompts_and_slots(tiny, monkeypatch,
                                                                            unit, count):
    monkeypatch.setattr(prompt_batch, 'TOKENS_PER_UNIT', unit)
    graphs = []

    def graph():
        graphs.append(Replayed())
        return graphs[-1]

    with torch.inference_mode():
        decoder = Decoder(tiny.transformer, SLOTS, LENGTH)
        decoder._recordings = Recordings(graph)
        for names, slots in ((['text', 'text'], [0, 1]), (['picture', 'no thinking'], [2, 0]),
                             (['three pictures', 'picture'], [4, 3]),
                             (['text', 'video'], [1, 2])):
            logits = read(tiny, decoder, names, slots, 350)
            for name, row in zip(names, logits, strict=True):
                assert near(row, prefill(tiny, name, LENGTH))
    assert [graph.replays for graph in graphs] == [3] * count       # one for each layer, or for all


def test_rotary_values_are_those_of_the_table(tiny):
    prompt = encode(tiny, 'three pictures')
    decoder = Decoder(tiny.transformer, 1, LENGTH)
    for mine, wanted in zip(decoder.rotary(prompt.positions),
                            rotary_table(prompt.positions, tiny.config), strict=True):
        assert torch.equal(mine, wanted)
    assert len(prompt.positions.unique(dim=0)) == 3         # the axes differ


def test_streams_choose_as_they_do_alone_whoever_joins_with_them(tiny):
    torch.manual_seed(0)
    logits, choices = torch.randn(3, 512), [Choice(), Choice(1.5, 0.9, 40, -2**63), Choice(
        0.7, seed=2**63 - 1)]
    entrants = [Entrant(slot, 10 * slot, 9 * slot, choice)
                for slot, choice in zip((4, 0, 2), choices, strict=True)]
    together = Decoder(tiny.transformer, SLOTS, LENGTH)
    first = together.join(entrants, logits)
    for row, entrant in enumerate(entrants):
        alone, slot = Decoder(tiny.transformer, SLOTS, LENGTH), entrant.slot
        assert alone.join([entrant], logits[row:row + 1]) == first[row]
        for name in ('_counts', '_shares'):
            assert torch.equal(getattr(together, name)[:, slot], getattr(alone, name)[:, slot])
    assert first[0] == logits[0].argmax()
    assert together._active.tolist() == [1, 0, 1, 0, 1]
    assert together._filled.tolist() == [0, 0, 20, 0, 40]
    assert together._sampling.step.tolist() == [1, 0, 1, 0, 1]
    assert together._sampling.seed[[0, 2]].tolist() == [-2**63, 2**63 - 1]


def test_prompts_are_padded_to_few_lengths_where_work_is_recorded():
    cuda = torch.device('cuda')
    lengths = [padded_length(tokens, cuda) for tokens in range(1, 1025)]
    assert all(0 <= length - tokens < 128 for tokens, length in enumerate(lengths, 1))
    assert len(set(lengths)) == 20 and max(lengths) == 1024
    assert padded_length(77, CPU) == 77
