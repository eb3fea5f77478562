# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""How many sessions stay on the device, for how long, and what is refused."""
import gc
import threading
import weakref

import pytest
import torch

from cosmos3_ros.engine import sessions
from cosmos3_ros.engine.sessions import SessionError, SessionPool, free_bytes

GB = 10**9


class Clock:
    """Seconds that pass when told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Thing:
    """A session."""


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def memory(monkeypatch):
    """Free bytes of the device, to be set."""
    free = {'bytes': 10 * GB}
    monkeypatch.setattr(sessions, 'free_bytes', lambda device: free['bytes'])
    return free


@pytest.fixture
def pool(clock, memory):
    return SessionPool(torch.device('cpu'), limit=3, idle=60.0, clock=clock)


def serve(pool, name):
    with pool.use(name):
        pass


def test_session_is_created_once_and_found_again(pool):
    thing = Thing()
    assert pool.open('a', 1, lambda: thing) is thing
    with pool.use('a') as found:
        assert found is thing
    assert pool.peek('a') is thing
    assert pool.names == ['a']


def test_name_in_use_is_refused(pool):
    first = pool.open('a', 1, Thing)
    with pytest.raises(SessionError, match=r"'a' is open"):
        pool.open('a', 1, Thing)
    assert pool.peek('a') is first


def test_session_over_the_limit_is_refused_and_names_the_open_ones(pool):
    for name in 'abc':
        pool.open(name, 1, Thing)
    with pytest.raises(SessionError, match=r"'d'.*3.*a, b, c"):
        pool.open('d', 1, Thing)
    assert pool.names == ['a', 'b', 'c']
    pool.close('b')
    pool.open('d', 1, Thing)
    assert pool.names == ['a', 'c', 'd']


def test_session_that_does_not_fit_is_refused_with_both_numbers(pool, memory):
    memory['bytes'] = 2.5 * GB
    made = []
    with pytest.raises(SessionError, match=r"'a'.*3\.25 GB.*2\.50 GB"):
        pool.open('a', int(3.25 * GB), lambda: made.append(1))
    assert not pool.names and not made
    pool.open('a', int(2.5 * GB), Thing)


def test_memory_promised_to_a_session_is_not_promised_again(pool, memory):
    """A session takes its memory when it is first used; until then it is still free."""
    memory['bytes'] = 5 * GB
    pool.open('a', 3 * GB, Thing)
    with pytest.raises(SessionError, match=r"'b'.*3\.00 GB.*2\.00 GB"):
        pool.open('b', 3 * GB, Thing)
    pool.open('c', 2 * GB, Thing)
    pool.close('c')
    with pool.use('a'):
        memory['bytes'] = 2 * GB
    pool.open('b', 2 * GB, Thing)
    pool.close('b')
    with pytest.raises(SessionError, match=r'3\.00 GB.*2\.00 GB'):
        pool.open('b', 3 * GB, Thing)


def test_session_that_cannot_be_made_is_not_open(pool):
    def fail():
        raise MemoryError('no room')

    with pytest.raises(MemoryError):
        pool.open('a', 1, fail)
    assert pool.names == []
    pool.open('a', 1, Thing)


def test_idle_session_is_dropped_and_a_used_one_is_not(pool, clock):
    pool.open('a', 1, Thing)
    pool.open('b', 1, Thing)
    clock.now += 50
    serve(pool, 'a')
    assert pool.expire() == []
    clock.now += 20
    assert pool.expire() == ['b']
    assert pool.names == ['a']
    clock.now += 39
    assert pool.expire() == []
    clock.now += 2
    assert pool.expire() == ['a'] and pool.names == []


def test_busy_session_never_expires_and_its_age_starts_anew(pool, clock):
    pool.open('a', 1, Thing)
    with pool.use('a'):
        clock.now += 500
        assert pool.expire() == []
    assert pool.expire() == []
    clock.now += 61
    assert pool.expire() == ['a']


def test_opening_makes_room_of_idle_sessions(pool, clock):
    for name in 'abc':
        pool.open(name, 1, Thing)
    clock.now += 61
    pool.open('d', 1, Thing)
    assert pool.names == ['d']


def test_busy_session_refuses_a_second_request_and_to_be_closed(pool):
    pool.open('a', 7, Thing)
    with pool.use('a') as thing:
        with pytest.raises(SessionError, match=r"'a'.*request"):
            serve(pool, 'a')
        with pytest.raises(SessionError, match=r"'a'.*request"):
            pool.close('a')
        assert pool.peek('a') is thing
    serve(pool, 'a')
    assert pool.close('a') == 7


def test_failing_request_leaves_the_session_open_and_free(pool):
    pool.open('a', 1, Thing)
    with pytest.raises(OSError, match='broken'), pool.use('a'):
        raise OSError('broken')
    serve(pool, 'a')


@pytest.mark.parametrize('ask', [serve, SessionPool.close, SessionPool.peek],
                         ids=['use', 'close', 'peek'])
def test_unknown_session_is_refused_and_names_the_open_ones(pool, ask):
    with pytest.raises(SessionError, match=r"'x'.*none"):
        ask(pool, 'x')
    pool.open('a', 1, Thing)
    pool.open('b', 1, Thing)
    with pytest.raises(SessionError, match=r"'x'.*a, b"):
        ask(pool, 'x')


def test_close_returns_the_bytes_and_lets_go(pool):
    gone = weakref.ref(pool.open('a', 123, Thing))
    assert pool.close('a') == 123
    gc.collect()
    assert gone() is None
    with pytest.raises(SessionError):
        pool.peek('a')


def test_expired_session_is_let_go(pool, clock):
    gone = weakref.ref(pool.open('a', 1, Thing))
    clock.now += 61
    pool.expire()
    gc.collect()
    assert gone() is None


def test_one_of_many_threads_gets_the_session(pool):
    pool.open('a', 1, Thing)
    start, done, results = threading.Barrier(8), threading.Event(), []

    def ask():
        start.wait()
        try:
            with pool.use('a'):
                results.append('served')
                done.wait(10)
        except SessionError:
            results.append('refused')

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(results) < 8:
        threads[0].join(0.01)
    done.set()
    for thread in threads:
        thread.join(10)
    assert sorted(results) == ['refused'] * 7 + ['served']


def test_free_memory_of_a_cpu_is_that_of_the_machine():
    free = free_bytes(torch.device('cpu'))
    with open('/proc/meminfo', encoding='ascii') as file:
        available = next(int(line.split()[1]) * 1024 for line in file
                         if line.startswith('MemAvailable'))
    assert abs(free - available) < 0.3 * available
