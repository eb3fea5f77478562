# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The start and the end of an engine."""

from concurrent.futures import wait
import gc
import threading
import weakref

import pytest
import torch

from cosmos3_ros.engine.engine import Engine, EngineClosed
from engine_jobs import SOON, Gate, forever, steps


def test_close_cancels_what_is_queued_and_what_runs():
    engine, closed, log = Engine(), [], []
    begun = engine.submit(forever(closed))
    gate = Gate(engine)
    queued = [engine.submit(steps(log=log), deadline=deadline) for deadline in (None, 1e12)]
    assert not engine.close(timeout=0)          # the gate outlasts it
    assert all(future.cancelled() for future in [begun, *queued])
    gate.release()
    assert engine.close(SOON)
    everything = [gate.future, begun, *queued]
    assert wait(everything, SOON).not_done == set()
    assert all(future.cancelled() for future in everything)
    assert closed == ['engine']
    assert log == []


def test_a_closed_engine_refuses_jobs_and_keeps_none():
    engine, log = Engine(), []
    assert engine.close(SOON) and engine.close(SOON)
    job = steps(log=log)
    kept = weakref.ref(job)
    with pytest.raises(EngineClosed, match=r'^job chunk 9: .*closed'):
        engine.submit(job, name='chunk 9')
    del job
    gc.collect()        # the frames of the error
    assert kept() is None and log == []


def test_a_job_submitted_while_closing_is_refused():
    engine = Engine()
    gate, log = Gate(engine), []
    engine.close(timeout=0)
    with pytest.raises(EngineClosed):
        engine.submit(steps(log=log))
    gate.release()
    assert engine.close(SOON) and log == []


def test_a_job_closes_its_engine():
    engine, closed = Engine(), []

    def job():
        engine.close()
        yield from forever(closed)

    gate = Gate(engine)
    closing, queued = engine.submit(job()), engine.submit(forever())
    gate.release()
    assert wait([closing, queued], SOON).not_done == set()
    assert closing.cancelled() and queued.cancelled()
    assert engine.close(SOON) and len(closed) == 1


def test_a_done_callback_closes_the_engine():
    engine = Engine()
    with Gate(engine):
        first, second = engine.submit(steps(1, 1)), engine.submit(forever())
        first.add_done_callback(lambda _: engine.close())
    assert wait([second], SOON).not_done == set()
    assert first.result() == 1 and second.cancelled()
    assert engine.close(SOON)


def test_callbacks_of_a_close_run_without_the_engine_locked():
    """A callback takes a lock of the node, another thread holds it and submits: both go on."""
    engine, node, refused = Engine(), threading.Lock(), threading.Event()
    gate, in_callback = Gate(engine), threading.Event()
    queued = engine.submit(steps())

    def callback(_):
        in_callback.set()
        assert refused.wait(SOON)
        with node:
            pass

    def submit():
        with node:
            assert in_callback.wait(SOON)
            with pytest.raises(EngineClosed):
                engine.submit(steps())
            refused.set()

    queued.add_done_callback(callback)
    other = threading.Thread(target=submit)
    other.start()
    closer = threading.Thread(target=engine.close)
    closer.start()
    refused_in_time = refused.wait(SOON / 5)
    gate.release()
    closer.join(SOON), other.join(SOON)
    assert refused_in_time
    assert engine.close(SOON)


def test_the_with_statement_closes_the_engine():
    with Engine() as engine:
        begun = engine.submit(forever())
    assert begun.cancelled()
    with pytest.raises(EngineClosed):
        engine.submit(steps())


def test_a_device_that_is_not_there_is_refused_at_once():
    wrong = f'cuda:{torch.cuda.device_count() + 7}'
    before = threading.enumerate()
    with pytest.raises((RuntimeError, AssertionError)):
        Engine(wrong)
    assert 'engine' not in {thread.name for thread in set(threading.enumerate()).difference(before)}


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a GPU')
def test_a_gpu_without_a_number_is_the_current_one():
    def job():
        yield
        return torch.zeros(1, device='cuda').device

    with Engine('cuda') as engine:
        assert engine.device == torch.device('cuda', torch.cuda.current_device())
        assert engine.submit(job()).result(SOON) == engine.device
