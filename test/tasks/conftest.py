# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of video tasks share."""
import pytest


@pytest.fixture(scope='module', autouse=True)
def one_thread():
    """Tensors are tiny here: a second thread costs more than it brings."""
    import torch
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope='session')
def pipeline(tiny_folder):
    """diffusers' pipeline on the tiny checkpoint; do not leave a change on it."""
    from diffusers import Cosmos3OmniPipeline
    pipeline = Cosmos3OmniPipeline.from_pretrained(tiny_folder)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@pytest.fixture
def decoded(monkeypatch):
    """Latents [C, 1, h, w] and pixels [3, F, H, W], in the order in which they are decoded."""
    from cosmos3_ros.model.vae import StreamingDecoder
    record = Decoded()
    decoding = StreamingDecoder.decoding

    def decode_and_record(decoder, latent):
        pixels = yield from decoding(decoder, latent)
        record.latents.append(latent.clone())
        record.pixels.append(pixels.clone())
        return pixels

    monkeypatch.setattr(StreamingDecoder, 'decoding', decode_and_record)
    return record


class Decoded:
    """Everything that went through the decoder, until it is taken."""

    def __init__(self):
        self.latents, self.pixels = [], []

    def take(self):
        """All latents [C, T, h, w] and all pixels [3, F, H, W] so far; starts anew."""
        import torch
        taken = torch.cat(self.latents, 1), torch.cat(self.pixels, 1)
        self.__init__()
        return taken
