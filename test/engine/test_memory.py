# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of memory agrees with what is then taken."""
from contextlib import contextmanager

import pytest
import torch

from cosmos3_ros.bench.policy import observation
from cosmos3_ros.droid.recipe import request
from cosmos3_ros.engine.memory import MemoryPlanError, plan
from cosmos3_ros.model.checkpoint import load, open_checkpoint
from cosmos3_ros.model.cosmos3 import Cosmos3
from cosmos3_ros.model.decoder import Decoder
from cosmos3_ros.model.history import History
from cosmos3_ros.model.vae import StreamingDecoder
from cosmos3_ros.tasks.policy import policy
from cosmos3_ros.tasks.rollout import RolloutRecipe


def test_weights_and_slots_are_as_large_as_planned():
    found = plan({'base': open_checkpoint('random:tiny')}, torch.float32, slots=3, length=300)
    model = load('random:tiny')
    tensors = [*model.transformer.state_dict().values(), *model.vae.module.state_dict().values(),
               *model.vision.state_dict().values()]
    assert found.parts['weights of base'] == sum(t.nbytes for t in tensors)
    decoder = Decoder(model.transformer, 3, 300)
    assert found.parts['questions'] == pytest.approx(
        decoder._keys.nbytes + decoder._values.nbytes, rel=0.01)


def size(buffers):
    return sum(buffer.nbytes for buffer in buffers)


def test_chunks_in_flight_take_no_more_than_planned(tiny, monkeypatch):
    placed, branches = [], Cosmos3.branches

    @contextmanager
    def noted(*args):
        with branches(*args) as found:
            placed.append(found)
            yield found
    monkeypatch.setattr(Cosmos3, 'branches', noted)
    with torch.inference_mode():
        next(policy(tiny, request(observation(0), 0)))
    taken = size(buffer for memory in placed[0].memories
                 for buffer in (memory.keys, memory.values))
    base = open_checkpoint('random:tiny')
    found = plan({'base': base}, torch.float32, chunks=2)
    assert 2 * taken <= found.parts['chunks'] <= 3 * taken
    recorded = plan({'base': base}, torch.float32, chunks=2, graphs=True)
    assert recorded.most - found.most == 2 * found.parts['working space of policy']


def test_video_takes_no_more_than_planned_while_its_prompt_changes(tiny):
    recipe = RolloutRecipe()
    height, width = recipe.latent_size
    decoder = StreamingDecoder(tiny.vae)
    with torch.inference_mode():
        decoder.decode(torch.zeros(tiny.config.latent_channel, 1, height, width))
        prefixes = [tiny.prefix([7] * 40), tiny.prefix([8])]
        old = [History(prefix, height // 2 * (width // 2), recipe.window, recipe.history,
                       recipe.anchor) for prefix in prefixes]
        new = [memory.with_prompt(memory.prefix) for memory in old]
    taken = size([*decoder._features, *(buffer for memory in (*old, *new)
                                        for buffer in (memory.keys, memory.values))])
    found = plan({'base': open_checkpoint('random:tiny')}, torch.float32, sessions=1)
    assert taken <= found.parts['videos'] <= 1.2 * taken


def test_tasks_that_do_not_run_take_nothing():
    found = plan({'policy': open_checkpoint('random:tiny-droid')}, torch.float32, chunks=1)
    assert set(found.parts) == {'weights of policy', 'prompts', 'chunks',
                                'working space of policy'}


def test_8_bit_weights_are_planned_as_they_are_loaded():
    checkpoints = {'base': open_checkpoint('random:tiny')}
    assert (plan(checkpoints, torch.float8_e4m3fn, slots=1, length=300).parts
            == plan(checkpoints, torch.bfloat16, slots=1, length=300).parts)


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


def test_fp8_decode_takes_a_byte_for_each_weight_it_rounds(tiny):
    from cosmos3_ros.model.decode_step import Weight
    weights = [tiny.transformer.lm_head.weight]
    for layer in tiny.transformer.und.layers:
        weights += [layer.attention.qkv_weight, layer.attention.out.weight,
                    layer.mlp.up_proj.weight, layer.mlp.down_proj.weight]
    found = plan({'base': open_checkpoint('random:tiny')}, torch.float32, slots=1, length=300,
                 fp8_decode=True)
    assert found.parts['fp8 weights'] == size(Weight.of(one, True).values for one in weights)
    assert 'fp8 weights' not in plan({'base': open_checkpoint('random:tiny')}, torch.float32,
                                     slots=1, length=300).parts
