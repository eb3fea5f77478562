# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Requests in flight: observed on one thread, sampled by the engine, delivered on another.

No rclpy. Nobody waits: each stage hands over to the next, and a request ends exactly once, in
`deliver` or in `drop`.
"""
from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
import contextlib
from dataclasses import dataclass
import threading
import time
from typing import Any

from cosmos3_ros.droid.observation import Observation
from cosmos3_ros.engine.engine import (
    DeadlineExceeded,
    DeadlineUnreachable,
    Engine,
    EngineClosed,
)
from cosmos3_ros.sensing.images import ImageError
from cosmos3_ros.sensing.streams import Snapshot

Job = Generator[None, None, Any]


@dataclass(frozen=True, eq=False)
class Request:
    """One observation on its way; `deadline` in s of `time.monotonic`. Equal to itself only."""

    snapshot: Snapshot
    instruction: str
    seed: int
    deadline: float
    sequence: int
    epoch: int


class Pipeline:
    """At most a few requests between observation and delivery.

    `observe` converts a request's messages; `make_job` turns the observation and a seed into the
    engine's job; both run on the observing thread and may raise. `deliver` gets the request, the
    job's result and the seconds from submission to result. `drop` gets the request, a code and
    the reason. `idle` is called when a place has become free. The last three run on the delivering
    thread, in the order in which the results came.
    """

    def __init__(self, engine: Engine, observe: Callable[[Request], Observation],
                 make_job: Callable[[Observation, int], Job],
                 deliver: Callable[[Request, Any, float], None],
                 drop: Callable[[Request, str, str], None], idle: Callable[[], None]):
        self._engine = engine
        self._observe = observe
        self._make_job = make_job
        self._deliver = deliver
        self._drop = drop
        self._idle = idle
        self._observing = ThreadPoolExecutor(1, 'observe')
        self._delivering = ThreadPoolExecutor(1, 'deliver')
        self._lock = threading.Lock()
        self._flights: dict[Request, Future | None] = {}
        self.sequence = self._epoch = self.max_in_flight = 0    # sequence: of the next request

    @property
    def in_flight(self) -> int:
        """Requests that have not ended."""
        return len(self._flights)

    def start(self, snapshot: Snapshot, instruction: str, seed: int, deadline: float) -> None:
        """Send a request off."""
        with self._lock:
            request = Request(snapshot, instruction, seed, deadline, self.sequence, self._epoch)
            self.sequence += 1
            self._flights[request] = None
            self.max_in_flight = max(self.max_in_flight, len(self._flights))
        self._hand_over(self._observing, self._submit, request)

    def flush(self) -> None:
        """Cancel what is in flight; it ends in `drop`, even if its result is there already."""
        with self._lock:
            self._epoch += 1
            futures = [future for future in self._flights.values() if future is not None]
        for future in futures:
            future.cancel()

    def restart(self) -> None:
        """Flush, and count requests from 0 again."""
        self.flush()
        with self._lock:
            self.sequence, self.max_in_flight = 0, len(self._flights)

    def close(self) -> None:
        """Flush and end both threads; they finish what they are at."""
        self.flush()
        self._observing.shutdown(wait=False, cancel_futures=True)
        self._delivering.shutdown(wait=False, cancel_futures=True)

    def _submit(self, request: Request) -> None:
        try:
            if self._stale(request):
                raise CancelledError
            job = self._make_job(self._observe(request), request.seed)
            started = time.monotonic()
            future = self._engine.submit(job, task='policy', deadline=request.deadline,
                                         name=f'chunk {request.sequence}')
        except Exception as error:      # bad pictures, a closed engine, a job that refuses
            self._hand_over(self._delivering, self._end, request, None, error, 0.0)
            return
        with self._lock:
            self._flights[request] = future
        future.add_done_callback(lambda done: self._hand_over(
            self._delivering, self._settle, request, done, time.monotonic() - started))
        if self._stale(request):        # flushed before the future was known
            future.cancel()

    def _settle(self, request: Request, future: Future, latency: float) -> None:
        error = CancelledError() if future.cancelled() else future.exception()
        self._end(request, None if error else future.result(), error, latency)

    def _end(self, request: Request, result: Any, error: BaseException | None,
             latency: float) -> None:
        with self._lock:
            del self._flights[request]
        if error is None and self._stale(request):
            error = CancelledError()
        try:
            if error is None:
                self._deliver(request, result, latency)
        except Exception as failure:    # the thread outlives any request
            error = failure
        if error is not None:
            self._drop(request, *_reason(error))
        self._idle()

    def _stale(self, request: Request) -> bool:
        return request.epoch != self._epoch

    def _hand_over(self, pool: ThreadPoolExecutor, *work: Any) -> None:
        with contextlib.suppress(RuntimeError):     # closed: nobody wants the result any more
            pool.submit(*work)


def _reason(error: BaseException) -> tuple[str, str]:
    if isinstance(error, (CancelledError, EngineClosed)):
        return 'cancelled', 'flushed'
    if isinstance(error, DeadlineUnreachable):
        return 'unreachable', str(error)
    if isinstance(error, DeadlineExceeded):
        return 'late', str(error)
    if isinstance(error, ImageError):
        return 'picture', str(error)
    return 'error', f'{type(error).__name__}: {error}'
