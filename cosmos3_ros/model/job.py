# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Work in parts: a generator that yields wherever something more urgent may come between."""
from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, TypeVar

T = TypeVar('T')


def finish(job: Generator[Any, None, T]) -> T:
    """Run a job to its end; returns its result."""
    while True:
        try:
            next(job)
        except StopIteration as stop:
            return stop.value


def single(function: Callable[..., T], *arguments: Any) -> Generator[None, None, T]:
    """A function as a job that never yields."""
    return function(*arguments)
    yield


def pauses(steps: int, most: int) -> frozenset[int]:
    """After which of `steps` (from 1) a job yields, for units alike of at most `most` steps.

    Not after the last: a short unit at the end would be over before the next is launched.
    """
    units = -(-steps // max(1, most))
    return frozenset(steps * unit // units for unit in range(1, units))


def meanwhile(job: Generator[Any, None, T], call: Callable[[], None]) -> Generator[Any, None, T]:
    """A job, with a call made as soon as its first unit is launched.

    What the call waits for, it waits for while the device works.
    """
    with closing(job):
        try:
            unit = next(job)
        except StopIteration as stop:
            call()
            return stop.value
        call()
        yield unit
        return (yield from job)
