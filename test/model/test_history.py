# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a rollout remembers, against a plain list that keeps every vector."""
import random

import pytest
import torch

from cosmos3_ros.model.branches import Prefix
from cosmos3_ros.model.history import History

LAYERS, TOKENS, HEADS, WIDTH = 2, 3, 1, 4


def prefix(length, seed=0):
    draw = torch.Generator().manual_seed(1000 + seed)
    return Prefix(*torch.randn(2, LAYERS, length, HEADS, WIDTH, generator=draw))


class Video:
    """Keys and values of every latent ever written: [2, layers, tokens, heads, width] each."""

    def __init__(self, seed=0):
        self.draw = torch.Generator().manual_seed(seed)
        self.latents = []

    def window(self, count):
        return torch.randn(2, LAYERS, count * TOKENS, HEADS, WIDTH, generator=self.draw)

    def commit(self, window):
        self.latents.extend(window.split(TOKENS, dim=2))

    def kept(self, budget, anchor):
        newest = len(self.latents) - budget
        return [i for i in range(len(self.latents)) if i < anchor or i >= newest]


def write(history, window):
    """One pass through the layers; what it attends to, [2, layers, N, heads, width]."""
    count, seen = window.shape[2], []
    for layer in range(LAYERS):
        for place, part in zip(history.behind(layer, count), window[:, layer]):
            place.copy_(part)
        seen.append(history.read(layer, count))
    return torch.stack([torch.stack([layer[part] for layer in seen]) for part in (0, 1)])


def rows(vectors):
    """One row a token, all layers' keys and values in it, in an order of its own."""
    return sorted(vectors.permute(2, 0, 1, 3, 4).flatten(1).tolist())


def check(history, video, text, budget, anchor):
    """A pass sees the text, what is kept and itself, whatever the order."""
    own = video.window(1)
    kept = [video.latents[i] for i in video.kept(budget, anchor)]
    wanted = torch.cat([torch.stack([text.keys, text.values]), *kept, own], 2)
    assert rows(write(history, own)) == rows(wanted)
    assert history.kept == set(video.kept(budget, anchor))
    assert history.latents == len(video.latents)


@pytest.mark.parametrize('budget, anchor, window', [
    (4, 1, 2), (4, 0, 2), (16, 1, 8), (2, 3, 4), (0, 2, 3), (0, 0, 2), (5, 1, 3), (1, 0, 1)])
def test_text_anchor_and_newest_latents_are_kept(budget, anchor, window):
    text, video = prefix(5), Video()
    history = History(text, TOKENS, window, budget, anchor)
    for _ in range(9):
        check(history, video, text, budget, anchor)
        new = video.window(window)
        write(history, new)
        history.commit(window)
        video.commit(new)
    check(history, video, text, budget, anchor)


@pytest.mark.parametrize('seed', range(40))
def test_any_sequence_of_windows_keeps_the_same(seed):
    """Windows of any size, passes that are given up, prompts that change."""
    choose = random.Random(seed)
    window, budget, anchor = (choose.randint(low, 6) for low in (1, 0, 0))
    text, video = prefix(4), Video(seed)
    history = History(text, TOKENS, window, budget, anchor)
    for step in range(12):
        new = video.window(choose.randint(1, window))
        write(history, new)
        what = choose.random()
        if what < 0.6:
            history.commit(new.shape[2] // TOKENS)
            video.commit(new)
        elif what < 0.8:
            text = prefix(choose.randint(1, 9), step)
            history = history.with_prompt(text)
        check(history, video, text, budget, anchor)


def test_another_prompt_leaves_the_history_as_it_was():
    old, new, video = prefix(5), prefix(8, 1), Video()
    history = History(old, TOKENS, 2, 3, 1)
    for _ in range(3):
        window = video.window(2)
        write(history, window)
        history.commit(2)
        video.commit(window)
    other = history.with_prompt(new)
    assert (history.prefix, other.prefix) == (old, new)
    check(other, video, new, 3, 1)
    before = list(video.latents)
    window = video.window(2)
    write(other, window)
    other.commit(2)
    check(history, video, old, 3, 1)
    video.commit(window)
    check(other, video, new, 3, 1)
    video.latents = before
    check(history, video, old, 3, 1)


def test_buffers_are_taken_once():
    """They have room for the text, all that is kept and a window; commits copy within them."""
    video, history = Video(), History(prefix(5), TOKENS, 2, 4, 1)
    places = history.keys.data_ptr(), history.values.data_ptr()
    assert history.keys.shape == history.values.shape == (
        LAYERS, 5 + (1 + 4 + 2) * TOKENS, HEADS, WIDTH)
    for _ in range(5):
        write(history, video.window(2))
        history.commit(2)
    assert (history.keys.data_ptr(), history.values.data_ptr()) == places
