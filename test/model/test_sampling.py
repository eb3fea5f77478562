# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Sampling: which tokens may come, how often, and that a row is independent of its batch."""
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from cosmos3_ros.model.sampling import Sampling, sample, uniform

LOGITS = torch.tensor([[0.3, 2.0, -1.0, 1.5, 0.0, -4.0, 1.9, 0.7]])


def rows_of(count, temperature=0.0, top_p=1.0, top_k=0):
    """As many rows at their first step."""
    return Sampling(torch.full((count,), temperature), torch.full((count,), top_p),
                    torch.full((count,), top_k), torch.zeros(count, dtype=torch.long),
                    torch.zeros(count, dtype=torch.long))


def draw(count, temperature, top_p=1.0, top_k=0, logits=LOGITS):
    """Tokens of many seeds at once."""
    many = rows_of(count, temperature, top_p, top_k)
    many.seed[:] = torch.arange(count)
    return sample(logits.expand(count, -1), many, random=True)


@pytest.mark.parametrize(('temperature', 'top_p', 'top_k'), [
    (1.0, 1.0, 0), (0.5, 1.0, 0), (1.0, 0.6, 0), (1.0, 1.0, 3), (1.3, 0.8, 5), (2.0, 0.01, 0)])
def test_frequencies_are_the_probabilities_of_transformers(temperature, top_p, top_k):
    wanted = TemperatureLogitsWarper(temperature)(None, LOGITS)
    if top_k:
        wanted = TopKLogitsWarper(top_k)(None, wanted)
    if top_p < 1:
        wanted = TopPLogitsWarper(top_p)(None, wanted)
    wanted = wanted.softmax(-1)[0]
    count = 20000
    seen = draw(count, temperature, top_p, top_k).bincount(minlength=8) / count
    assert (seen[wanted == 0] == 0).all()
    assert torch.allclose(seen, wanted, atol=4 * 0.5 / count**0.5)      # four deviations


def test_temperature_zero_takes_the_likeliest_beside_rows_that_sample():
    rows = rows_of(50)
    rows.temperature[1::2] = 3.0
    rows.seed[:] = torch.arange(50)
    tokens = sample(LOGITS.expand(50, -1), rows, random=True)
    assert (tokens[0::2] == 1).all() and tokens[1::2].unique().numel() > 3


@pytest.mark.parametrize('temperature', [1e-6, 1e-30, 1e-38, 1e-42])    # the last is subnormal
def test_smallest_temperatures_take_the_likeliest(temperature):
    logits = torch.cat([100 * LOGITS, -100 * LOGITS])
    rows = rows_of(2, temperature)
    assert sample(logits, rows, random=True).tolist() == logits.argmax(-1).tolist()


@pytest.mark.parametrize('bad', [torch.nan, torch.inf, -torch.inf])
def test_logits_that_are_not_finite_give_some_token_and_leave_other_rows(bad):
    rows = rows_of(3, 1.0, 0.9, 4)
    rows.seed[:] = torch.arange(3)
    logits = LOGITS.repeat(3, 1)
    wanted = sample(logits, rows, random=True)
    logits[1] = bad
    tokens = sample(logits, rows, random=True)
    assert 0 <= tokens[1] < LOGITS.shape[1]
    assert tokens[[0, 2]].equal(wanted[[0, 2]])


def test_row_does_not_depend_on_its_batch():
    torch.manual_seed(0)
    logits = torch.randn(6, 300)
    rows = rows_of(6, 1.0, 0.9, 50)
    rows.seed[:], rows.step[:] = torch.tensor([7, 7, 8, -5, 2**62, 0]), torch.arange(6)
    together = sample(logits, rows, random=True)
    for i in (5, 3, 0):
        alone = Sampling(*(getattr(rows, name)[i:i + 1] for name in (
            'temperature', 'top_p', 'top_k', 'seed', 'step')))
        assert sample(logits[i:i + 1], alone, random=True) == together[i]


def test_random_numbers_are_uniform_along_seeds_and_steps():
    seeds, steps = torch.meshgrid(torch.arange(300), torch.arange(300), indexing='ij')
    values = uniform(seeds, steps)
    assert values.min() >= 0 and values.max() < 1
    for means in (values.mean(0), values.mean(1)):      # deviation of a mean: 0.0167
        assert (means - 0.5).abs().max() < 0.075
    pairs = torch.stack([values[:, :-1].flatten(), values[:, 1:].flatten()])
    assert torch.corrcoef(pairs)[0, 1].abs() < 0.015


def test_random_numbers_follow_splitmix64():
    # first output for seed 0 published with the generator: 0xE220A8397B1DCDAF, then
    # 0x6E789E6AA1B965F4: a seed's stream starts at the mixed seed
    start = 0xE220A8397B1DCDAF
    assert uniform(torch.tensor([0]), torch.tensor([0])).item() * 2**24 == _mix(start) >> 40
    assert uniform(torch.tensor([0]), torch.tensor([2])).item() * 2**24 == _mix(
        start + 2 * 0x9E3779B97F4A7C15) >> 40


def _mix(x):
    x &= 2**64 - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
    x = (x ^ x >> 27) * 0x94D049BB133111EB & 2**64 - 1
    return x ^ x >> 31
