# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The bounds on working space hold for what passes really take, and are no more than thrice it."""
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cosmos3_ros.engine import working_space
from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.decoder import Decoder
from cosmos3_ros.model.job import finish
from cosmos3_ros.model.positions import Layout
from cosmos3_ros.model.vae import StreamingDecoder

LOOSEST = 3             # times what was measured


class Peak(TorchDispatchMode):
    """Counts the bytes of tensors that were made inside and live at the same time."""

    def __init__(self):
        super().__init__()
        self._known = weakref.WeakSet()
        self._now = self.most = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        for tensor in tensors((arguments, options)):
            self._known.add(tensor.untyped_storage())       # of others, or counted already
        result = function(*arguments, **(options or {}))
        for tensor in tensors(result):
            storage = tensor.untyped_storage()
            if storage not in self._known:
                self._known.add(storage)
                self._add(storage.nbytes())
                weakref.finalize(storage, self._add, -storage.nbytes())
        return result

    def _add(self, size):
        self._now += size
        self.most = max(self.most, self._now)


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def peak(work):
    """Most bytes that lived at the same time, of those that the work has made."""
    with torch.inference_mode(), Peak() as found:
        work()
    assert found.most > 0
    return found.most


def check(bound, measured):
    assert measured <= bound <= LOOSEST * measured


@pytest.fixture(scope='module', params=['random:tiny', 'random:tiny-nano'])
def model(request):
    """Both kinds of feed-forward block."""
    return load(request.param)


@pytest.mark.parametrize('branches', [1, 2])
@pytest.mark.parametrize('rows', [0, 33])
def test_pass_of_the_generation_tower(model, branches, rows):
    layout = Layout(4, 12, 20, 24.0, rows=rows)
    with torch.inference_mode():
        with model.branches([[1, 2, 3]] * branches, layout) as placed:
            pass
    video = torch.zeros(model.config.latent_channel, 4, 12, 20)
    actions = torch.zeros(rows, model.config.action_dim) if rows else None
    tokens = branches * layout.tokens(model.config.latent_patch_size)
    check(working_space.generation_pass(model.config, tokens, torch.float32),
          peak(lambda: finish(model.transformer.velocity(placed, video, 900, actions))))


def test_decoding_of_a_latent(tiny):
    decoder = StreamingDecoder(tiny.vae)
    latent = torch.zeros(tiny.config.latent_channel, 1, 6, 10)
    with torch.inference_mode():
        decoder.decode(latent)
    kept = StreamingDecoder.device_bytes(tiny.vae, 6, 10)       # anew, beside the old one
    check(working_space.decoding(tiny.vae, 6, 10) + kept, peak(lambda: decoder.decode(latent)))


def test_batch_of_prompts(tiny):
    decoder, count = Decoder(tiny.transformer, 1, 600), 600
    with torch.inference_mode():
        x = decoder.embed(torch.zeros(count, dtype=torch.long))
        cos, sin = decoder.rotary(torch.zeros(3, count, dtype=torch.long))
    check(working_space.prompt_pass(tiny.config, count, torch.float32),
          peak(lambda: decoder.prefill(0, 0, x, cos, sin)))


def test_choice_of_tokens(tiny):
    from cosmos3_ros.model.sampling import Sampling, sample
    logits = torch.zeros(8, tiny.config.vocab_size)
    whole = torch.zeros(8, dtype=torch.long)
    sampling = Sampling(torch.ones(8), torch.ones(8), whole, whole, whole)
    check(working_space.token_choice(tiny.config, 8),
          peak(lambda: sample(logits, sampling, True)))


def test_batch_of_pictures(tiny):
    vision, (rows, columns) = tiny.vision, (16, 24)
    pixels = torch.zeros(rows * columns, vision.config.patch_values)
    check(working_space.pictures_pass(vision.config, tiny.config.hidden_size, rows * columns,
                                      torch.float32),
          peak(lambda: vision(torch.cat([pixels]), [(rows, columns)])))
