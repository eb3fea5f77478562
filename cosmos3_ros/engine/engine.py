# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A worker thread that owns the device and advances jobs.

A job is a generator: it yields wherever a more urgent job may take the device, which is every few
ms of device time, and returns its result. What runs between two yields is a unit.
"""
from __future__ import annotations

from collections.abc import Generator, Mapping
from concurrent.futures import CancelledError, Future
import logging
import math
import os
import sys
import threading
import time
import traceback
from typing import Any, TypeVar

import torch

from .figures import Counts, Snapshot
from .scheduler import DeadlineExceeded, DeadlineUnreachable, Entry, Scheduler
from .sessions import free_bytes
from .timeline import Timeline
from .trace import Trace

__all__ = ['DeadlineExceeded', 'DeadlineUnreachable', 'Engine', 'EngineClosed', 'Job']
LOGGER = logging.getLogger(__name__)

SWITCH_INTERVAL = 2e-4  # s; the engine takes the GIL back after each of its thousands of calls

T = TypeVar('T')
Job = Generator[None, None, T]


class EngineClosed(RuntimeError):
    """The engine takes no more jobs."""


class Engine:
    """Runs jobs on one thread, one unit at a time, in the order of its Scheduler.

    The future of a job stays pending until the job ends, so `future.cancel()` works at any time:
    the job is closed at its next yield. An exception in a job reaches its future and nothing else.
    Done callbacks run on the worker thread, or in the call that cancels: they must hand over and
    return. `max_unit`: s; longer units are counted as too long. Threads of the process take turns
    more often from here on (`sys.setswitchinterval`). Raises RuntimeError for a device that is not
    there.
    """

    def __init__(self, device: str | torch.device = 'cpu', *,
                 weights: Mapping[str, float] | None = None, max_unit: float = math.inf,
                 trace: Trace | None = None):
        self.device = torch.empty(0, device=device).device      # with its number
        self.max_unit = max_unit
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL))
        self._trace = trace
        self._scheduler = Scheduler(weights)
        self._timeline = Timeline(self.device, lambda: time.monotonic())
        self._counts: dict[str, Counts] = {}
        self._lock = threading.Lock()       # of all that other threads read or change
        self._wake = threading.Condition(self._lock)
        self._stepped = threading.Condition(self._lock)
        self._units, self._stepping = 0, False
        self._settling = 0                  # threads that wait for the unit in progress
        self._closing = False
        self._thread = threading.Thread(target=self._run, name='engine', daemon=True)
        self._thread.start()

    def submit(self, job: Job[T], *, task: str = 'other', deadline: float | None = None,
               name: str = '') -> Future[T]:
        """Queue a job; `deadline` is in seconds of `time.monotonic()`.

        `task`: whose weight and figures it counts for. The future raises the job's exception,
        DeadlineExceeded when the deadline passes before the job has ended (DeadlineUnreachable, a
        kind of it, as soon as that is certain), or CancelledError. Raises EngineClosed after
        `close`.
        """
        entry = Entry(task, name or job.__name__,
                      math.inf if deadline is None else deadline, job)
        with self._lock:
            if self._closing:
                raise EngineClosed(f'job {entry.name}: the engine is closed; start a new one')
            entry.submitted = entry.runnable = time.monotonic()
            self._counts.setdefault(task, Counts())
            self._scheduler.add(entry)
            self._wake.notify()
        return entry.future

    def set_weight(self, task: str, weight: float) -> None:
        """Change what part a task gets of the time that deadlines leave. Raises ValueError."""
        with self._lock:
            self._scheduler.set_weight(task, weight)

    def snapshot(self) -> Snapshot:
        """Figures of all tasks; from any thread."""
        with self._lock:
            queued = [entry.task for entry in self._scheduler.waiting]
            counts = {task: counts.copy() for task, counts in self._counts.items()}
        return Snapshot(time.monotonic(), {task: copy.figures(queued.count(task))
                                           for task, copy in counts.items()})

    def settle(self, timeout: float) -> None:
        """Wait until the unit in progress has ended: a job cancelled before makes no other."""
        with self._lock:
            units = self._units
            self._settling += 1
            self._stepped.wait_for(lambda: self._units != units or not self._stepping, timeout)
            self._settling -= 1

    def close(self, timeout: float = 10.0) -> bool:
        """Cancel every job and end the thread.

        False if it has not ended yet: a unit outlasted `timeout` seconds, or a job is the caller.
        """
        with self._lock:
            self._closing = True
            queued = self._scheduler.waiting
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

    def _run(self) -> None:
        if self.device.type == 'cuda':
            torch.cuda.set_device(self.device)
        else:                           # a core stays free for ROS
            torch.set_num_threads(max(1, (os.cpu_count() or 1) - 1))
        with torch.inference_mode():
            while (entry := self._next()) is not None:
                self._advance(entry)
                del entry               # an idle engine keeps no job and no result alive

    def _next(self) -> Entry | None:
        """Wait for something to do and room on the device; None once all jobs have ended."""
        while True:
            if not self._closing:
                self._timeline.make_room()
            if self._scheduler.idle:
                self._timeline.drain()
            self._account()
            with self._lock:
                while self._scheduler.idle and not self._closing:
                    self._wake.wait()
                expelled = self._scheduler.expel(time.monotonic(), self._timeline.backlog)
                if not expelled:
                    return self._scheduler.next()
            while expelled:
                self._end(*expelled.pop())

    def _account(self) -> None:
        """Count the units that the device has done."""
        done = self._timeline.take()
        if not done:
            return
        with self._lock:
            for unit in done:
                self._scheduler.correct(unit.entry, unit.estimate, unit.seconds)
                self._counts[unit.entry.task].unit(unit, self.max_unit)
        for unit in done:
            if self._trace is not None:
                self._trace.unit(unit)
            if unit.error is not None:
                LOGGER.error('%s: failed on the device: %s', unit.entry.name, unit.error)
                unit.entry.error = unit.error

    def _advance(self, entry: Entry) -> None:
        """Run one unit; queue the job again, or end it."""
        self._stepping = True
        more, result, error = True, None, self._reason_to_stop(entry)
        if error is None:
            more, result, error = self._step(entry)
            if error is None:
                error = self._reason_to_stop(entry)
        more = more and error is None
        if not more:
            self._end(entry, error, result)
        with self._lock:
            if more:
                entry.runnable = time.monotonic()
                self._scheduler.put_back(entry)
            self._units, self._stepping = self._units + 1, False
            if self._settling:
                self._stepped.notify_all()

    def _reason_to_stop(self, entry: Entry) -> BaseException | None:
        if self._closing or entry.future.cancelled():
            return CancelledError()
        if entry.error is not None:
            return entry.error
        late = time.monotonic() - entry.deadline
        if late > 0:
            return DeadlineExceeded(
                f'{entry.name}: dropped, {late * 1e3:.0f} ms past its deadline')
        return None

    def _step(self, entry: Entry) -> tuple[bool, Any, BaseException | None]:
        """Whether the job has more, its result, its error."""
        unit = self._timeline.start(entry)
        try:
            next(entry.job)
        except StopIteration as stop:
            return False, stop.value, None
        except BaseException as error:  # noqa: B036 - the worker outlives any job
            traceback.clear_frames(error.__traceback__)     # who keeps the error keeps no tensors
            return False, None, error
        finally:
            self._timeline.stop(unit)
            with self._lock:
                self._scheduler.charge(entry, unit.estimate)
            del unit
        return True, None, None

    def _end(self, entry: Entry, error: BaseException | None, result: Any = None) -> None:
        """Close the job and tell its future."""
        _close(entry)
        if isinstance(error, torch.OutOfMemoryError):
            error = self._explained(entry, error)
        self._account()
        cancelled = isinstance(error, CancelledError) and (
            self._closing or entry.future.cancelled())
        with self._lock:
            self._scheduler.ended(entry, error)
            self._counts[entry.task].end(cancelled, error)
        if self._trace is not None:
            outcome = 'result' if error is None else type(error).__name__
            self._trace.job(entry, time.monotonic(), outcome)
        self._finish(entry, result, error)

    def _explained(self, entry: Entry, error: torch.OutOfMemoryError) -> torch.OutOfMemoryError:
        """The error in terms of what may be asked; the memory of the job is given back."""
        if self.device.type == 'cuda':
            torch.cuda.empty_cache()    # what the job had held, in pieces that fit nothing else
        explained = torch.OutOfMemoryError(
            f'{entry.name}: out of memory on {self.device}, where without it '
            f'{free_bytes(self.device) / 1e9:.2f} GB are free; ask for a smaller picture, history '
            'or window, close a session, or start with a lower session_limit, question_slots or '
            'question_length')
        explained.__cause__ = error
        return explained

    def _finish(self, entry: Entry, result: Any, error: BaseException | None) -> None:
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


def _close(entry: Entry) -> None:
    try:
        entry.job.close()
    except BaseException:  # noqa: B036
        LOGGER.exception('%s: failed while it was closed', entry.name)
