# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs for the tests of the engine."""

import threading

SOON = 30.0         # seconds that a wait may last before the test fails; none is used up


class Gate:
    """A job held in its first step, and the worker with it, between `entered` and `release`.

    What it does `then` begins in that same step.
    """

    def __init__(self, engine, then=(), **options):
        self.entered, self.opened = threading.Event(), threading.Event()
        self.future = engine.submit(self._job(then), **options)
        assert self.entered.wait(SOON)

    def _job(self, then):
        self.entered.set()
        assert self.opened.wait(SOON)
        yield from then
        return 'gate'

    def release(self):
        self.opened.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


def steps(count=1, result=None, log=None, name=None):
    for _ in range(count):
        if log is not None:
            log.append(name)
        yield
    return result


def forever(closed=None):
    """Yields until it is closed; then notes the name of the thread that closed it."""
    try:
        while True:
            yield
    finally:
        if closed is not None:
            closed.append(threading.current_thread().name)


def raising(error):
    yield
    raise error


def still_works(engine):
    return engine.submit(steps(2, 'works')).result(SOON) == 'works'
