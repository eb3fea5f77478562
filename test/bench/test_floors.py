# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Floors against the tensors of a network."""
import pytest

from cosmos3_ros.bench.floors import Floors
from cosmos3_ros.bench.rates import Rates
from cosmos3_ros.model.decoder import Decoder

RATES = Rates({'fp32': 1.0, 'bf16': 1.0, 'fp8': 1.0}, copy=1.0)     # a byte a second


@pytest.mark.parametrize('precision, weight, key', [('fp32', 4, 4), ('bf16', 2, 2), ('fp8', 1, 2)])
def test_a_token_of_an_answer_reads_weights_once_and_the_cache_of_each_stream(
        tiny, precision, weight, key):
    network = tiny.transformer
    weights = network.lm_head.weight.numel() + sum(
        values.numel() for values in network.und.layers.parameters() if values.ndim == 2)
    cache = [values for values in vars(Decoder(network, 3, 10)).values()
             if getattr(values, 'ndim', 0) == 5]
    streams = sum(values[:, :, :, :10].numel() for values in cache)
    assert len(cache) == 2
    floors = Floors(tiny.config, {}, RATES, precision)
    assert floors.token(3, 10) == weights * weight + streams * key
