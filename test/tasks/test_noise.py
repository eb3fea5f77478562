# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Noise drawn ahead of who asks for it."""
import numpy as np
import torch

from cosmos3_ros.tasks import noise
from cosmos3_ros.tasks.noise import KEPT, Ahead, gaussian

SHAPE = (2, 3)


def test_noise_is_that_of_the_released_server():
    wanted = np.random.RandomState(7).standard_normal(SHAPE).astype(np.float32)
    assert np.array_equal(gaussian(7, SHAPE).numpy(), wanted)


def test_what_was_drawn_ahead_is_what_would_be_drawn_now(monkeypatch):
    drawn = []
    monkeypatch.setattr(noise, 'gaussian',
                        lambda seed, shape: drawn.append((seed, shape)) or gaussian(seed, shape))
    ahead = Ahead()
    for seed in (4, 5, 6, 2**32 - 1, 0):
        assert torch.equal(ahead.draw(seed, SHAPE).result(5), gaussian(seed, SHAPE))
    assert torch.equal(ahead.draw(1, (3, 2)).result(5), gaussian(1, (3, 2)))
    ahead.draw(2, (3, 2)).result(5)
    once = [(seed, SHAPE) for seed in (4, 5, 6, 7, 2**32 - 1, 0, 1)]
    assert drawn[:len(once)] == once        # none was drawn twice


def test_nobody_shares_noise_and_little_is_kept():
    ahead = Ahead()
    first, again = ahead.draw(1, SHAPE).result(5), ahead.draw(1, SHAPE).result(5)
    first.zero_()
    assert torch.equal(again, gaussian(1, SHAPE))
    for seed in range(10, 40, 2):
        ahead.draw(seed, SHAPE)
    assert len(ahead._drawn) == KEPT
