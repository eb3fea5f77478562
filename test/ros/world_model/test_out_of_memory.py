# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A goal or a chunk that finds no memory says what to do, and nothing else fails."""
from cosmos3_ros.action import Imagine
import pytest
import torch

from waiting import wait_for

Outcome = Imagine.Result
ADVICE = 'ask for a smaller picture, history or window, close a session'


@pytest.fixture
def chunks(setup):
    """The chunks of a policy in the same process, once there are some."""
    setup.policy_node(max_reply_age=50.0, max_chunk_age=50.0, give_up_age=100.0)
    setup.cell.say('pick up the cup')
    wait_for(lambda: setup.cell.chunks)
    return setup.cell.chunks


def test_goal_without_memory_fails_with_advice_and_chunks_go_on(world, pace, chunks):
    session = world.run(frames=29)[1].session
    pace.error = torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 GiB')
    failed = world.run(frames=32, session=session)[1]
    assert (failed.outcome, failed.session, failed.windows) == (Outcome.FAILED, session, 1)
    assert 'imagine: out of memory on cpu' in failed.message and ADVICE in failed.message
    count = len(chunks)
    wait_for(lambda: len(chunks) > count + 3)
    pace.error = None
    assert world.run(frames=32, session=session)[1].outcome == Outcome.SUCCEEDED


def test_chunk_without_memory_is_dropped_with_advice_and_videos_go_on(
        setup, world, chunks, monkeypatch):
    def short(observation):
        yield
        raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 GiB')

    with monkeypatch.context() as patch:
        patch.setattr(setup.policy, '_run', short)
        wait_for(lambda: ADVICE in setup.cell.status('inference')[1])
        assert world.run(frames=29)[1].outcome == Outcome.SUCCEEDED
    count = len(chunks)
    wait_for(lambda: len(chunks) > count)
