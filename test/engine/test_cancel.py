# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Cancelling: when a job is closed, on which thread, and who is told."""

from concurrent.futures import CancelledError, wait
import threading

import pytest

from cosmos3_ros.engine.engine import DeadlineExceeded
from engine_jobs import SOON, Gate, forever, steps, still_works


def test_cancel_before_the_first_step_runs_none_of_it(engine):
    log = []
    with Gate(engine):
        future = engine.submit(steps(3, log=log))
        assert future.cancel()
    assert still_works(engine)
    assert future.cancelled() and log == []


def test_cancel_between_steps_closes_the_job_on_the_worker_thread(engine):
    started, closed = threading.Event(), []

    def job():
        started.set()
        yield from forever(closed)

    future = engine.submit(job())
    assert started.wait(SOON)
    assert future.cancel()
    assert still_works(engine)
    assert closed == ['engine']


def test_cancel_during_a_step_closes_the_job_at_its_next_yield(engine):
    """Whatever else is queued: nothing runs between that yield and the close."""
    order = []

    def then():
        try:
            order.append('step')
            yield
            order.append('next step')
        finally:
            order.append('closed')

    with Gate(engine, then()) as gate:
        other = engine.submit(steps(1, log=order, name='other'), deadline=1e12)
        assert gate.future.cancel()
    other.result(SOON)
    assert order == ['step', 'closed', 'other']


def test_cancel_during_the_last_step_drops_the_result(engine):
    gate = Gate(engine)
    assert gate.future.cancel()
    gate.release()
    assert still_works(engine)
    with pytest.raises(CancelledError):
        gate.future.result(0)


def test_cancel_during_a_step_that_fails_stays_a_cancel(engine):
    def fail():
        raise ValueError('too late to tell')
        yield

    with Gate(engine, fail()) as gate:
        assert gate.future.cancel()
    assert still_works(engine)
    assert gate.future.cancelled()


def test_cancel_after_the_end_changes_nothing(engine):
    future = engine.submit(steps(1, 'result'))
    assert future.result(SOON) == 'result'
    assert not future.cancel()
    assert future.result() == 'result'


def test_who_waits_for_several_futures_sees_a_cancelled_one(engine):
    with Gate(engine):
        queued = engine.submit(steps())
        begun = engine.submit(forever())
        queued.cancel()
    assert still_works(engine)
    begun.cancel()
    assert wait([queued, begun], SOON).not_done == set()


def job_that_fails_in_close(error):
    try:
        while True:
            yield
    finally:
        raise error


def job_that_yields_again():
    try:
        yield
    except GeneratorExit:
        yield


@pytest.mark.parametrize('make', [
    lambda: job_that_fails_in_close(ValueError('bad')),
    lambda: job_that_fails_in_close(KeyboardInterrupt()),
    lambda: job_that_fails_in_close(SystemExit()),
    job_that_yields_again], ids=['error', 'interrupt', 'exit', 'yields'])
def test_the_engine_outlives_a_job_that_will_not_close(engine, clock, caplog, make):
    with Gate(engine, make(), name='cancelled job') as cancelled:
        assert cancelled.future.cancel()
    with Gate(engine, make(), deadline=1001.0, name='late job') as late:
        clock.now = 1002.0
    assert isinstance(late.future.exception(SOON), DeadlineExceeded)
    assert still_works(engine)
    assert 'cancelled job' in caplog.text and 'late job' in caplog.text
