# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A worker thread that owns the device and advances jobs.

A job is a generator: it yields wherever a more urgent job may take the device, and returns its
result. Jobs with a deadline go first, the earliest first; the others take turns, and get a fixed
share of the time even when there is always an urgent one.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
import heapq
import itertools
import logging
import math
import os
import threading
import time
import traceback
from typing import Any, TypeVar

import torch

LOGGER = logging.getLogger(__name__)

SHARE = 0.2             # of the time, for jobs without a deadline while others have one
MOST_OWED = 0.5         # s either way; bounds what the past can cost the present

T = TypeVar('T')
Job = Generator[None, None, T]


class DeadlineExceeded(RuntimeError):
    """A job that was dropped because its result would have come too late."""


class EngineClosed(RuntimeError):
    """The engine takes no more jobs."""


@dataclass(order=True)
class _Entry:
    deadline: float
    number: int
    name: str = field(compare=False)
    job: Job[Any] = field(compare=False)
    future: Future = field(compare=False)


class Engine:
    """Runs jobs on one thread, one step at a time.

    The future of a job stays pending until the job ends, so `future.cancel()` works at any time:
    the job is closed at its next yield. An exception in a job reaches its future and nothing else.
    Done callbacks run on the worker thread, or in the call that cancels: they must hand over and
    return. Raises RuntimeError for a device that is not there.
    """

    def __init__(self, device: str | torch.device = 'cpu'):
        self.device = torch.empty(0, device=device).device      # with its number
        self._urgent: list[_Entry] = []
        self._others: deque[_Entry] = deque()
        self._numbers = itertools.count()
        self._wake = threading.Condition()
        self._closing = False
        self._owed = 0.0
        self._step_done: torch.cuda.Event | None = None
        self._thread = threading.Thread(target=self._run, name='engine', daemon=True)
        self._thread.start()

    def submit(self, job: Job[T], *, deadline: float | None = None, name: str = '') -> Future[T]:
        """Queue a job; `deadline` is in seconds of `time.monotonic()`.

        The future raises the job's exception, DeadlineExceeded when the deadline passes before
        the job has ended, or CancelledError. Raises EngineClosed after `close`.
        """
        entry = _Entry(math.inf if deadline is None else deadline, next(self._numbers),
                       name or job.__name__, job, Future())
        with self._wake:
            if self._closing:
                raise EngineClosed(f'job {entry.name}: the engine is closed; start a new one')
            self._queue(entry)
            self._wake.notify()
        return entry.future

    def close(self, timeout: float = 10.0) -> bool:
        """Cancel every job and end the thread.

        False if it has not ended yet: a step outlasted `timeout` seconds, or a job is the caller.
        """
        with self._wake:
            self._closing = True
            queued = [*self._urgent, *self._others]
            self._wake.notify()
        for entry in queued:
            entry.future.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _queue(self, entry: _Entry) -> None:
        if entry.deadline < math.inf:
            heapq.heappush(self._urgent, entry)
        else:
            self._others.append(entry)

    def _run(self) -> None:
        if self.device.type == 'cuda':
            torch.cuda.set_device(self.device)
        else:                           # a core stays free for ROS
            torch.set_num_threads(max(1, (os.cpu_count() or 1) - 1))
        with torch.inference_mode():
            while (entry := self._next()) is not None:
                started = time.monotonic()
                more = self._advance(entry)
                with self._wake:
                    self._account(entry, time.monotonic() - started)
                    if more:
                        self._queue(entry)
                del entry               # an idle engine keeps no job and no result alive

    def _next(self) -> _Entry | None:
        with self._wake:
            while not (self._urgent or self._others or self._closing):
                self._wake.wait()
            if self._urgent and not (self._others and self._owed > 0):
                return heapq.heappop(self._urgent)
            return self._others.popleft() if self._others else None

    def _account(self, entry: _Entry, elapsed: float) -> None:
        """Note what the other jobs are owed (s; less than 0: owe) while urgent ones wait too."""
        if entry.deadline < math.inf and self._others:
            self._owed = min(self._owed + elapsed * SHARE / (1 - SHARE), MOST_OWED)
        elif entry.deadline == math.inf and self._urgent:
            self._owed = max(self._owed - elapsed, -MOST_OWED)

    def _advance(self, entry: _Entry) -> bool:
        """Run one step; True while the job has more."""
        more, result, error = True, None, self._reason_to_stop(entry)
        if error is None:
            more, result, error = self._step(entry.job)
            if error is None:
                error = self._reason_to_stop(entry)
        if more and error is None:
            return True
        _close(entry)
        self._finish(entry, result, error)
        return False

    def _reason_to_stop(self, entry: _Entry) -> Exception | None:
        if self._closing or entry.future.cancelled():
            return CancelledError()
        late = time.monotonic() - entry.deadline
        if late > 0:
            return DeadlineExceeded(
                f'{entry.name}: dropped, {late * 1e3:.0f} ms past its deadline')
        return None

    def _step(self, job: Job[T]) -> tuple[bool, T | None, BaseException | None]:
        """Whether the job has more, its result, its error."""
        try:
            next(job)
            self._pace()
        except StopIteration as stop:
            return False, stop.value, None
        except BaseException as error:  # noqa: B036 - the worker outlives any job
            traceback.clear_frames(error.__traceback__)     # who keeps the error keeps no tensors
            return False, None, error
        return True, None, None

    def _finish(self, entry: _Entry, result: Any, error: BaseException | None) -> None:
        future = entry.future
        try:
            if self._closing:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        except BaseException:  # noqa: B036 - a Future lets these out of its callbacks
            LOGGER.exception('%s: a done callback failed', entry.name)

    def _pace(self) -> None:
        """Stay at most one step ahead of the device: what is queued there cannot be overtaken."""
        if self.device.type != 'cuda':
            return
        done = torch.cuda.Event(blocking=True)
        done.record()
        if self._step_done is not None:
            self._step_done.synchronize()
        self._step_done = done


def _close(entry: _Entry) -> None:
    try:
        entry.job.close()
    except BaseException:  # noqa: B036
        LOGGER.exception('%s: failed while it was closed', entry.name)
