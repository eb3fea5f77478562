# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs that are run, recorded and replayed, with graphs that tell what was done to them."""
from collections import Counter
from contextlib import contextmanager, nullcontext
from itertools import count

import pytest
import torch

from cosmos3_ros.model.job import finish
from cosmos3_ros.model.recordings import KEPT, Recordings, _CudaGraphs


class Graph:
    """Remembers that it was recorded, by name, and how often it was replayed."""

    made = None

    def __init__(self):
        self.number = len(Graph.made)
        Graph.made.append(self)
        self.recorded = False
        self.log = []

    @contextmanager
    def record(self):
        assert not self.recorded
        yield
        self.recorded = True

    def replay(self):
        assert self.recorded
        self.log.append(self.number)
        Graph.order.append(self.number)


@pytest.fixture
def recordings():
    Graph.made, Graph.order = [], []
    return Recordings(Graph)


class Work:
    """Doubles its input in three units; counts the units that were run."""

    def __init__(self):
        self.units, self.seen, self.closed = 0, [], 0

    def __call__(self, x):
        self.seen.append(x)
        try:
            for _ in range(2):
                self.units += 1
                yield
            self.units += 1
            return 2 * x
        finally:
            self.closed += 1


def steps(job):
    """Yields of a job, and its result."""
    count = 0
    while True:
        try:
            next(job)
        except StopIteration as stop:
            return count, stop.value
        count += 1


def test_run_then_recorded_then_replayed(recordings):
    work = Work()
    assert steps(recordings.run('key', work, torch.ones(2)))[0] == 2
    assert (work.units, Graph.made) == (3, [])
    count, result = steps(recordings.run('key', work, torch.full((2,), 3.0)))
    assert (count, work.units, len(Graph.made), Graph.order) == (2, 6, 3, [0, 1, 2])
    assert result.tolist() == [6, 6]
    count, again = steps(recordings.run('key', work, torch.full((2,), 4.0)))
    assert (count, work.units, Graph.order) == (2, 6, [0, 1, 2] * 2)
    assert again is result


def test_inputs_are_copied_to_where_the_graphs_read_them(recordings):
    work, first = Work(), torch.full((2,), 3.0)
    finish(recordings.run('key', work, first))
    finish(recordings.run('key', work, first))
    place = work.seen[1]
    assert place is not first
    finish(recordings.run('key', work, torch.full((2,), 5.0)))
    assert place.tolist() == [5, 5] and first.tolist() == [3, 3]


def test_a_unit_runs_before_the_next_is_recorded(recordings):
    work = Work()
    finish(recordings.run('key', work, torch.ones(1)))
    job = recordings.run('key', work, torch.ones(1))
    next(job)
    assert (len(Graph.made), Graph.order) == (1, [0])


def test_keys_are_apart(recordings):
    works = {key: Work() for key in 'ab'}
    for _ in range(3):
        for key, work in works.items():
            finish(recordings.run(key, work, torch.ones(1)))
    assert Graph.order == [0, 1, 2, 3, 4, 5] * 2


@pytest.mark.parametrize('run', [1, 2])
def test_a_run_that_is_given_up_counts_for_nothing(recordings, run):
    work = Work()
    for _ in range(run - 1):
        finish(recordings.run('key', work, torch.ones(1)))
    job = recordings.run('key', work, torch.ones(1))
    next(job)
    job.close()
    assert work.closed == run
    count, result = steps(recordings.run('key', work, torch.ones(1)))
    assert (count, result.tolist(), work.units) == (2, [2], 3 * run + 1)


def test_a_failure_is_raised_and_recorded_anew(recordings):
    fails = True

    def work(x):
        yield
        if fails:
            raise RuntimeError('lost')
        return x

    for _ in range(2):
        with pytest.raises(RuntimeError, match='lost'):
            finish(recordings.run('key', work, torch.ones(1)))
    fails = False
    finish(recordings.run('key', work, torch.ones(1)))
    fails = True
    with pytest.raises(RuntimeError, match='lost'):
        finish(recordings.run('key', work, torch.ones(1)))
    fails = False
    assert finish(recordings.run('key', work, torch.full((1,), 7.0))).item() == 7


def test_the_keys_used_longest_ago_are_forgotten(recordings):
    works = [Work() for _ in range(KEPT + 1)]
    for number in range(KEPT):
        finish(recordings.run(number, works[number], torch.ones(1)))
    finish(recordings.run(0, works[0], torch.ones(1)))              # recorded, and the newest
    finish(recordings.run(KEPT, works[KEPT], torch.ones(1)))
    finish(recordings.run(0, works[0], torch.ones(1)))
    assert works[0].units == 6
    finish(recordings.run(1, works[1], torch.ones(1)))
    finish(recordings.run(2, works[2], torch.ones(1)))
    assert (works[1].units, works[2].units) == (6, 6)
    assert len(Graph.made) == 3                     # 1 and 2 had to start anew


def test_without_a_device_jobs_are_only_run():
    work, recordings = Work(), Recordings()
    for _ in range(3):
        assert finish(recordings.run('key', work, torch.ones(1))).item() == 2
    assert work.units == 9


@pytest.fixture
def pools(monkeypatch):
    """Graphs of each pool that live: none may be recorded into a pool that has lost its last."""
    users = Counter()

    class CUDAGraph:
        pool = None

        def capture_begin(self, pool, capture_error_mode):
            if pool in users and not users[pool]:
                raise RuntimeError('it->second->use_count > 0 INTERNAL ASSERT FAILED')
            users[pool] += 1
            self.pool = pool

        def capture_end(self):
            pass

        def replay(self):
            pass

        def __del__(self):
            users[self.pool] -= 1

    handles = count(1)
    for name, stand_in in (('CUDAGraph', CUDAGraph), ('Stream', lambda: None),
                           ('stream', lambda stream: nullcontext()),
                           ('graph_pool_handle', lambda: next(handles))):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return users


@pytest.fixture
def on_cuda(pools):
    return Recordings(_CudaGraphs())


def test_graphs_of_an_owner_share_a_pool(on_cuda, pools):
    work = Work()
    for key in 'aabb':
        finish(on_cuda.run(key, work, torch.ones(1)))
    assert list(pools.values()) == [6]


def test_recording_given_up_is_made_the_next_time(on_cuda, pools):
    work = Work()
    finish(on_cuda.run('key', work, torch.ones(1)))
    job = on_cuda.run('key', work, torch.ones(1))
    next(job)
    job.close()
    assert list(pools.values()) == [0]
    for _ in range(2):
        assert finish(on_cuda.run('key', work, torch.ones(1))).item() == 2
    assert work.units == 3 + 1 + 3


def test_recording_that_failed_leaves_others_possible(on_cuda):
    fails = False

    def work(x):
        if fails:
            raise torch.OutOfMemoryError('no memory left')
        yield
        return 2 * x

    finish(on_cuda.run('key', work, torch.ones(1)))
    fails = True
    with pytest.raises(torch.OutOfMemoryError):
        finish(on_cuda.run('key', work, torch.ones(1)))
    fails = False
    for key in ('key', 'other', 'other'):
        assert finish(on_cuda.run(key, work, torch.ones(1))).item() == 2


def test_recording_after_all_were_forgotten(on_cuda):
    work = Work()
    for key in ('first', 'first', *range(KEPT), KEPT - 1):
        assert finish(on_cuda.run(key, work, torch.ones(1))).item() == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a GPU')
def test_graphs_give_what_the_calls_give():
    recordings, weight = Recordings(), torch.randn(64, 64, device='cuda')

    def work(x):
        y = x @ weight
        yield
        y = y.relu() @ weight
        yield
        return y + x

    for seed in range(4):
        x = torch.randn(8, 64, generator=torch.Generator().manual_seed(seed)).cuda()
        got = finish(recordings.run('key', work, x))
        assert torch.equal(got, finish(work(x)))
