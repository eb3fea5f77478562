# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs without a deadline go on while there is always an urgent one."""

import pytest

from engine_jobs import SOON, Gate


def timed(clock, seconds, count, spent, name):
    """A job whose steps take so long on the engine's clock; what all had spent at its end."""
    for _ in range(count):
        clock.now += seconds
        spent[name] = spent.get(name, 0.0) + seconds
        yield
    return dict(spent)


@pytest.mark.parametrize('urgent, other', [(0.01, 0.01), (0.03, 0.002), (0.002, 0.04)])
def test_others_get_a_fifth_of_the_time_beside_urgent_jobs(engine, clock, urgent, other):
    spent = {}
    with Gate(engine):
        endless = engine.submit(timed(clock, other, 100_000, spent, 'other'))
        job = engine.submit(timed(clock, urgent, round(20 / urgent), spent, 'urgent'),
                            deadline=1e6)
    total = job.result(SOON)
    endless.cancel()
    share = total['other'] / (total['other'] + total['urgent'])
    assert share == pytest.approx(0.2, abs=0.01)


def test_others_that_ran_alone_owe_nothing(engine, clock):
    spent = {}
    alone = engine.submit(timed(clock, 1.0, 50, spent, 'other'))
    alone.result(SOON)
    with Gate(engine):
        endless = engine.submit(timed(clock, 0.01, 100_000, spent, 'later'))
        job = engine.submit(timed(clock, 0.01, 40, spent, 'urgent'), deadline=1e6)
    total = job.result(SOON)
    endless.cancel()
    assert total['later'] >= 0.08


def test_an_urgent_job_waits_for_one_step_of_others_at_most(engine, clock):
    log = []

    def step(name, count):
        for _ in range(count):
            log.append(name)
            clock.now += 0.01
            yield

    with Gate(engine):
        endless = engine.submit(step('other', 100_000))
        job = engine.submit(step('urgent', 200), deadline=1e6)
    job.result(SOON)
    endless.cancel()
    upto = log[:len(log) - log[::-1].index('urgent')]
    runs = ''.join('o' if name == 'other' else 'u' for name in upto).split('u')
    assert max(map(len, runs)) == 1
