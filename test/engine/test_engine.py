# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Whose result is whose, who goes first, and jobs that come from jobs."""

from concurrent.futures import CancelledError, Future
import threading

import pytest
import torch

from cosmos3_ros.engine.engine import DeadlineExceeded
from engine_jobs import SOON, Gate, raising, steps, still_works


def test_each_result_reaches_its_own_future(engine):
    futures = [engine.submit(steps(3, result)) for result in range(20)]
    assert [future.result(SOON) for future in futures] == list(range(20))


@pytest.mark.parametrize('error', [
    ValueError('bad'), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), CancelledError()])
def test_an_exception_reaches_its_own_future_and_nobody_else(engine, error):
    with Gate(engine):
        before = engine.submit(steps(3, 'before'))
        failing = engine.submit(raising(error))
        after = engine.submit(steps(3, 'after'))
    assert failing.exception(SOON) is error
    assert (before.result(SOON), after.result(SOON)) == ('before', 'after')


def test_job_steps_run_in_inference_mode_on_the_worker_thread(engine):
    seen = []

    def job():
        for _ in range(3):
            seen.append((threading.current_thread(), torch.is_inference_mode_enabled()))
            yield

    engine.submit(job()).result(SOON)
    assert len(seen) == 3
    assert {(thread.name, mode) for thread, mode in seen} == {('engine', True)}
    assert threading.current_thread() not in {thread for thread, _ in seen}


def test_urgent_jobs_go_first_and_the_earliest_of_them_before_the_others(engine, clock):
    log = []
    with Gate(engine):
        futures = [engine.submit(steps(2, log=log, name=name), deadline=deadline)
                   for name, deadline in (('none', None), ('late', 3000.0), ('early', 2000.0),
                                          ('late too', 3000.0))]
    for future in futures:
        future.result(SOON)
    assert log == ['early'] * 2 + ['late'] * 2 + ['late too'] * 2 + ['none'] * 2


def test_jobs_without_a_deadline_take_turns(engine):
    log = []
    with Gate(engine):
        futures = [engine.submit(steps(count, log=log, name=name))
                   for name, count in (('a', 3), ('b', 1), ('c', 2))]
    for future in futures:
        future.result(SOON)
    assert log == ['a', 'b', 'c', 'a', 'c', 'a']


def test_an_urgent_job_overtakes_at_the_next_yield(engine):
    log = []
    with Gate(engine, steps(2, log=log, name='background')) as background:
        urgent = engine.submit(steps(2, log=log, name='urgent'), deadline=1e12)
    urgent.result(SOON), background.future.result(SOON)
    assert log == ['background', 'urgent', 'urgent', 'background']


def test_a_job_past_its_deadline_never_starts(engine, clock):
    log = []
    with Gate(engine):
        future = engine.submit(steps(log=log), deadline=1000.5, name='chunk 7')
        clock.now = 1000.75
    with pytest.raises(DeadlineExceeded, match=r'^chunk 7: .*\b250 ms past its deadline'):
        future.result(SOON)
    assert log == []
    assert still_works(engine)


def test_a_job_whose_deadline_passes_is_closed_before_its_future_fails(engine, clock):
    closed, at_end = [], []

    def job():
        try:
            while True:
                clock.now += 0.4
                yield
        finally:
            closed.append(threading.current_thread().name)

    with Gate(engine):
        future = engine.submit(job(), deadline=1001.0, name='chunk')
        future.add_done_callback(lambda _: at_end.extend(closed))
    with pytest.raises(DeadlineExceeded, match='200 ms'):       # the third step ends at 1001.2
        future.result(SOON)
    assert at_end == ['engine']


def test_a_result_that_comes_after_the_deadline_is_not_given(engine, clock):
    def job():
        yield
        clock.now = 1002.0
        return 'stale'

    with pytest.raises(DeadlineExceeded, match='1000 ms'):
        engine.submit(job(), deadline=1001.0).result(SOON)


def test_a_job_that_fails_after_its_deadline_tells_its_own_error(engine, clock):
    def job():
        yield
        clock.now = 1002.0
        raise ValueError('bad')

    with pytest.raises(ValueError, match='bad'):
        engine.submit(job(), deadline=1001.0).result(SOON)


def test_a_job_submits_another(engine):
    def outer():
        inner = engine.submit(steps(2, 'inner'))
        while not inner.done():
            yield
        return inner.result()

    assert engine.submit(outer()).result(SOON) == 'inner'


def test_a_done_callback_submits_another_job(engine):
    results = Future()

    def chain(future):
        engine.submit(steps(1, future.result() + 1)).add_done_callback(
            lambda second: results.set_result(second.result()))

    with Gate(engine):
        engine.submit(steps(1, 1)).add_done_callback(chain)
    assert results.result(SOON) == 2


@pytest.mark.parametrize('error', [ValueError('bad'), SystemExit(), KeyboardInterrupt()])
@pytest.mark.parametrize('make', [steps, lambda: raising(ValueError())], ids=['result', 'error'])
def test_the_engine_outlives_a_callback_that_raises(engine, caplog, error, make):
    def callback(_):
        raise error

    with Gate(engine):
        future = engine.submit(make())
        future.add_done_callback(callback)
    assert still_works(engine)
    assert future.done()
    assert type(error).__name__ in caplog.text


def test_a_thousand_jobs_from_eight_threads_end_once_each(engine):
    """Some end, some fail, some are cancelled; each future is told once, each body is closed."""
    ended, open_jobs, threads = [], set(), set()

    def job(number):
        open_jobs.add(number)
        threads.add(threading.current_thread().name)
        try:
            for _ in range(number % 5):
                yield
            if number % 7 == 0:
                raise ValueError(number)
            return number
        finally:
            threads.add(threading.current_thread().name)
            open_jobs.remove(number)

    def submit(first):
        for number in range(first, 1000, 8):
            deadline = 1e12 - number if number % 3 == 0 else None
            future = engine.submit(job(number), deadline=deadline)
            future.add_done_callback(lambda future, number=number: ended.append((number, future)))
            if number % 11 == 0:
                future.cancel()

    submitters = [threading.Thread(target=submit, args=(first,)) for first in range(8)]
    for thread in submitters:
        thread.start()
    for thread in submitters:
        thread.join(SOON)
    engine.submit(steps(10)).result(SOON)           # its last turn comes after all of theirs
    assert sorted(number for number, _ in ended) == list(range(1000))
    for number, future in ended:
        if not future.cancelled():
            error = future.exception()
            assert str(error) == str(number) if number % 7 == 0 else future.result() == number
    assert all(number % 11 == 0 for number, future in ended if future.cancelled())
    assert open_jobs == set() and threads == {'engine'}
