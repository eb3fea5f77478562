# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of memory agrees with what is then taken."""
import pytest
import torch

from cosmos3_ros.engine.memory import MemoryPlanError, plan
from cosmos3_ros.model.checkpoint import load, open_checkpoint
from cosmos3_ros.model.decoder import Decoder


def test_weights_and_slots_are_as_large_as_planned():
    found = plan({'base': open_checkpoint('random:tiny')}, torch.float32, slots=3, length=300)
    model = load('random:tiny')
    tensors = [*model.transformer.state_dict().values(), *model.vae.module.state_dict().values(),
               *model.vision.state_dict().values()]
    assert found.parts['weights of base'] == sum(t.nbytes for t in tensors)
    decoder = Decoder(model.transformer, 3, 300)
    assert found.parts['questions'] == pytest.approx(
        decoder._keys.nbytes + decoder._values.nbytes, rel=0.01)


def test_what_a_second_checkpoint_may_share_is_told_apart():
    found = plan({'base': open_checkpoint('random:tiny'),
                  'policy': open_checkpoint('random:tiny-droid')}, torch.float32)
    assert 0 < found.shareable <= found.parts['weights of policy']
    assert found.least == found.most - found.shareable and 'at most' in str(found)


def test_what_does_not_fit_is_refused_with_the_numbers():
    found = plan({'base': open_checkpoint('random:edge')}, torch.bfloat16, slots=8, length=4096,
                 sessions=2)
    found.check(found.least, 'cuda:0')
    with pytest.raises(MemoryPlanError, match=r'questions .* 1\.00 GB are free on cuda:0'):
        found.check(10**9, 'cuda:0')
