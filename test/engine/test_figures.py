# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What an engine says of itself, as a snapshot and as a trace."""
import json
import threading

import pytest
import torch

from cosmos3_ros.engine.engine import DeadlineUnreachable, Engine
from cosmos3_ros.engine.trace import Trace
from engine_jobs import SOON, Gate, forever, raising, steps, still_works


def timed(clock, *lengths):
    """A job whose units take so long."""
    for seconds in lengths:
        clock.now += seconds
        yield


def test_device_time_units_and_longest_unit_are_counted_by_task(engine, clock):
    engine.submit(timed(clock, 0.5, 0.25), task='world_model').result(SOON)
    engine.submit(timed(clock, 0.125), task='reasoner').result(SOON)
    assert still_works(engine)
    tasks = engine.snapshot().tasks
    assert tasks['world_model'].device_time == pytest.approx(0.75)
    assert tasks['world_model'].longest_unit == pytest.approx(0.5)
    assert tasks['reasoner'].device_time == pytest.approx(0.125)
    assert tasks['reasoner'].units == 2          # the last one ends the job


def test_units_beyond_the_limit_are_counted(clock):
    with Engine(max_unit=0.3) as engine:
        engine.submit(timed(clock, 0.5, 0.25, 0.4), task='world_model').result(SOON)
        assert still_works(engine)
        assert engine.snapshot().tasks['world_model'].too_long == 2


def test_waits_run_from_runnable_to_running(engine, clock):
    with Gate(engine):
        future = engine.submit(steps(1), task='reasoner')
        clock.now += 2.0
    future.result(SOON)
    assert still_works(engine)
    assert engine.snapshot().tasks['reasoner'].wait_p99 == pytest.approx(2.0, rel=0.05)


def test_ends_are_counted_by_how_they_came(engine, clock):
    engine.submit(timed(clock, 1.0), task='policy', deadline=1e6).result(SOON)
    with Gate(engine):
        refused = engine.submit(steps(), task='policy', deadline=clock.now + 0.5)
        missed = engine.submit(steps(), task='other', deadline=clock.now + 0.5)
        cancelled = engine.submit(forever(), task='reasoner')
        failed = engine.submit(raising(ValueError('bad')), task='reasoner')
        queued = engine.snapshot().tasks
        assert queued['policy'].queued == 1 and queued['reasoner'].queued == 2
        cancelled.cancel()
        clock.now += 0.6
    for future in (refused, missed, failed):
        assert future.exception(SOON)
    assert still_works(engine)
    tasks = engine.snapshot().tasks
    assert tasks['policy'].missed + tasks['policy'].refused == 1
    assert (tasks['other'].missed, tasks['policy'].finished) == (1, 1)
    assert (tasks['reasoner'].cancelled, tasks['reasoner'].failed) == (1, 1)
    assert {figures.queued for figures in tasks.values()} == {0}


def test_a_job_whose_deadline_is_out_of_reach_never_starts(engine, clock):
    engine.submit(timed(clock, 1.0), task='policy', deadline=1e6).result(SOON)
    log = []
    late = engine.submit(steps(log=log), task='policy', deadline=clock.now + 0.5, name='chunk 3')
    with pytest.raises(DeadlineUnreachable, match=r'^chunk 3: refused, it needs 1000 ms'):
        late.result(SOON)
    assert log == [] and engine.snapshot().tasks['policy'].refused == 1


def test_a_part_of_the_time_between_two_snapshots(engine, clock):
    before = engine.snapshot()
    engine.submit(timed(clock, 0.5), task='world_model').result(SOON)
    clock.now += 0.5
    assert still_works(engine)
    assert engine.snapshot().since(before)['world_model'] == pytest.approx(0.5)


def test_weights_can_change_while_it_runs(engine):
    engine.set_weight('reasoner', 3.0)
    with pytest.raises(ValueError, match='weight of reasoner: found 0'):
        engine.set_weight('reasoner', 0)


def test_settle_waits_for_the_unit_in_progress_and_its_close(engine):
    closed, settled = [], threading.Event()

    def then():
        try:
            yield
        finally:
            closed.append(True)

    def settle():
        engine.settle(SOON)
        settled.set()

    gate = Gate(engine, then())
    gate.future.cancel()
    thread = threading.Thread(target=settle)
    thread.start()
    assert not settled.wait(0.1)
    gate.release()
    thread.join(SOON)
    assert settled.is_set() and closed == [True]
    engine.settle(SOON)                 # nothing runs: at once


def test_trace_shows_jobs_and_units_by_task(tmp_path, clock):
    trace = Trace()
    with Engine(trace=trace) as engine:
        engine.submit(timed(clock, 0.5, 0.25), task='world_model', name='imagine').result(SOON)
        failed = engine.submit(raising(ValueError()), task='policy', name='chunk 1')
        assert failed.exception(SOON)
    trace.write(tmp_path / 'trace.json')
    events = json.loads((tmp_path / 'trace.json').read_text())['traceEvents']
    tracks = {e['args']['name']: e['tid'] for e in events if e['name'] == 'thread_name'}
    assert set(tracks) == {'world_model', 'policy'}
    units = [e for e in events if e['ph'] == 'X' and e['tid'] == tracks['world_model']]
    assert [(e['name'], round(e['dur'])) for e in units][:2] == [('imagine', 500_000),
                                                               ('imagine', 250_000)]
    assert units[1]['ts'] - units[0]['ts'] == pytest.approx(500_000)
    begins, ends = ({e['name']: e for e in events if e['ph'] == kind} for kind in 'be')
    assert begins['chunk 1']['args'] == {'outcome': 'ValueError'}
    assert begins['imagine']['id'] == ends['imagine']['id'] != begins['chunk 1']['id']
    assert ends['imagine']['ts'] - begins['imagine']['ts'] == pytest.approx(750_000)


def out_of_memory():
    yield
    raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 GiB')


@pytest.mark.parametrize('task', ['policy', 'world_model', 'reasoner', 'load'])
def test_out_of_memory_fails_its_own_job_and_no_other(engine, task):
    deadline = 1e12 if task == 'policy' else None
    with Gate(engine):
        before = engine.submit(steps(5, 'before'), task='policy', deadline=1e12)
        failing = engine.submit(out_of_memory(), task=task, deadline=deadline)
        after = engine.submit(steps(5, 'after'), task='policy', deadline=1e12)
    assert isinstance(failing.exception(SOON), torch.OutOfMemoryError)
    assert (before.result(SOON), after.result(SOON)) == ('before', 'after')
    assert engine.snapshot().tasks[task].failed == 1
