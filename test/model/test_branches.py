# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Branches that one generation leaves to the next."""
import pytest
import torch

from cosmos3_ros.model.branches import IDLE_KEPT
from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.job import finish
from cosmos3_ros.model.positions import Layout

LAYOUT = Layout(2, 4, 6, 15.0, clean_frames=(0,), rows=5, clean_rows=(0,))
PROMPT, OTHER, LONGER = list(range(40, 60)), list(range(80, 100)), list(range(40, 61))


@pytest.fixture
def model():
    return load('random:tiny')


def velocity(model, branches, seed=0):
    draw = torch.Generator().manual_seed(seed)
    video = torch.randn(model.config.latent_channel, 2, 4, 6, generator=draw)
    rows = torch.randn(5, 64, generator=draw)
    (value, _), = finish(model.transformer.velocity(branches, video, 500, rows, 8))
    return value


def test_the_next_generation_of_a_shape_gets_the_same_memory(model):
    with model.branches([PROMPT], LAYOUT) as first:
        place = first.memories[0].place
    with model.branches([OTHER], LAYOUT) as second:
        assert second.memories[0].place == place and second.recordings is first.recordings
        assert second.first().recordings is second.recordings


def test_what_ran_before_leaves_no_trace(model):
    with model.branches([OTHER], LAYOUT) as branches:
        velocity(model, branches, seed=1)
        branches.memories[0].length += 3
    with model.branches([PROMPT], LAYOUT) as branches:
        reused = velocity(model, branches)
    fresh = load('random:tiny')
    with fresh.branches([PROMPT], LAYOUT) as branches:
        assert torch.equal(velocity(fresh, branches), reused)


@pytest.mark.parametrize('prompts, layout', [
    ([LONGER], LAYOUT), ([PROMPT, PROMPT], LAYOUT),
    ([PROMPT], Layout(2, 4, 6, 24.0, clean_frames=(0,), rows=5, clean_rows=(0,)))])
def test_another_shape_gets_memory_of_its_own(model, prompts, layout):
    with model.branches([PROMPT], LAYOUT) as first:
        pass
    with model.branches(prompts, layout) as second:
        assert second.memories[0] is not first.memories[0]
        assert [memory.length for memory in second.memories] == [len(p) for p in prompts]


def test_two_at_once_share_nothing(model):
    with model.branches([PROMPT], LAYOUT) as first, model.branches([PROMPT], LAYOUT) as second:
        places = {branches.memories[0].place for branches in (first, second)}
    assert len(places) == 2
    with model.branches([PROMPT], LAYOUT) as third, model.branches([PROMPT], LAYOUT) as fourth:
        assert {branches.memories[0].place for branches in (third, fourth)} == places
        assert third.recordings is not fourth.recordings


def test_a_given_up_generation_leaves_its_branches_and_a_failed_one_clears_all(model):
    def generation(fails):
        with model.branches([PROMPT], LAYOUT) as branches:
            yield branches
            if fails:
                raise RuntimeError('lost')
    job = generation(fails=False)
    kept = next(job).memories[0]
    job.close()
    job = generation(fails=True)
    assert next(job).memories[0] is kept
    with pytest.raises(RuntimeError, match='lost'):
        next(job)
    with model.branches([PROMPT], LAYOUT) as branches:
        assert branches.memories[0] is not kept


def test_few_are_kept(model):
    seen = []
    for length in range(1, IDLE_KEPT + 2):
        with model.branches([PROMPT[:length]], LAYOUT) as branches:
            seen.append(branches.memories[0])
    for length, again in ((IDLE_KEPT + 1, True), (2, True), (1, False)):
        with model.branches([PROMPT[:length]], LAYOUT) as branches:
            assert (branches.memories[0] in seen) == again
