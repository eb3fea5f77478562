# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""An engine without jobs takes no processor time and keeps no memory."""

import queue
import threading
import traceback
from types import SimpleNamespace
import weakref

import pytest

from cosmos3_ros.engine import engine as engine_module
from cosmos3_ros.engine.engine import Engine
from engine_jobs import SOON, steps, still_works


@pytest.fixture
def idle_engine(monkeypatch):
    """An engine whose waits can be seen; it is in the first when the test begins."""
    waits = queue.SimpleQueue()

    class Condition(threading.Condition):
        def wait(self, timeout=None):
            waits.put(timeout)
            return super().wait(timeout)

    monkeypatch.setattr(engine_module, 'threading', SimpleNamespace(
        **vars(threading) | {'Condition': Condition}))
    with Engine() as engine:
        assert waits.get(timeout=SOON) is None
        engine.waits = waits
        yield engine


def test_an_idle_engine_sleeps_until_it_is_woken(idle_engine):
    for _ in range(3):
        idle_engine.submit(steps(5)).result(SOON)
        assert idle_engine.waits.get(timeout=SOON) is None      # no time after which it looks
    assert idle_engine.waits.empty()                            # one wait a job


def test_an_idle_engine_holds_no_result(idle_engine):
    class Model:
        pass

    def job():
        yield
        return Model()

    future = idle_engine.submit(job())
    model = weakref.ref(future.result(SOON))
    assert idle_engine.waits.get(timeout=SOON) is None
    del future
    assert model() is None


def test_the_error_of_a_job_keeps_nothing_of_the_job_alive(engine):
    class Tensor:
        pass

    tensors = []

    def job():
        tensor = Tensor()
        tensors.append(weakref.ref(tensor))
        yield
        raise ValueError('bad')

    future = engine.submit(job())
    error = future.exception(SOON)
    assert still_works(engine)
    assert tensors[0]() is None
    assert [entry.name for entry in traceback.extract_tb(error.__traceback__)][-1] == 'job'
