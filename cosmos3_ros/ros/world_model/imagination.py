# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The work of one Imagine goal: segments for the engine, frames for the publisher.

The engine never waits for the publisher: frames that are not taken in time are dropped, which
their index shows.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, Future
import contextlib
from dataclasses import dataclass
import threading
import time

from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.stream import Stream
from cosmos3_ros.tasks.rollout import Frame

Job = Generator[None, None, None]
Segment = Callable[[Callable[[Frame], None]], Job]
FRAMES_HELD = 16        # frames that wait for the publishing thread: four latents
SETTLE_TIMEOUT = 1.0    # s for the unit in progress
FRAMES_OF_RATE = 32     # frames that the rate is taken over: a window of eight latents


@dataclass
class Progress:
    """Figures of one goal: time to the first frame (s, since acceptance), frames per second."""

    frames: int = 0
    first_frame: float = 0.0
    rate: float = 0.0           # over all frames
    recent_rate: float = 0.0    # over the newest FRAMES_OF_RATE


class Imagination:
    """Runs the segments of one goal in the calling thread; any thread may cancel it."""

    def __init__(self, engine: Engine):
        self.progress = Progress()
        self.begun = False              # the engine has made a step for it
        self.reason = ''                # why it was cancelled
        self.stopped = threading.Event()
        self._engine = engine
        self._lock = threading.Lock()
        self._future: Future[None] | None = None
        self._times = deque([time.monotonic()], maxlen=FRAMES_OF_RATE + 1)
        self._accepted = self._times[0]

    def cancel(self, reason: str) -> None:
        """Stop at the engine's next step; `run` returns soon after."""
        with self._lock:
            self.reason = self.reason or reason
            self.stopped.set()
            future = self._future
        if future is not None:
            future.cancel()

    def run(self, segments: Iterable[Segment], publish: Callable[[Frame], None],
            report: Callable[[Progress], None]) -> None:
        """Stream to the end.

        `segments`: jobs for the engine in order, each a function of the function that takes
        frames; the iterator may wait before it gives the next. `publish` is called with every
        frame, `report` after every latent. Raises CancelledError, or what a segment raised. The
        engine has let go of the session by the time it returns.
        """
        def take(stream: Stream[Frame]) -> None:
            for frame in iter(stream.get, None):
                publish(frame)
                self._count()
                if frame.index % 4 == 0:        # a latent's last frame: index 0, 4, 8, ...
                    report(self.progress)

        for segment in segments:
            self._run(segment, take)
        if self.stopped.is_set():
            raise CancelledError

    def _run(self, segment: Segment, take: Callable[[Stream[Frame]], None]) -> None:
        stream: Stream[Frame] = Stream(FRAMES_HELD)
        future = self._submit(segment(stream.put))
        future.add_done_callback(lambda _: stream.end())
        try:
            take(stream)
        finally:
            if future.cancel():         # cancelled, or publishing failed
                self._engine.settle(SETTLE_TIMEOUT)
        take(stream)                    # what the step in progress has still made
        future.result()

    def _submit(self, job: Job) -> Future[None]:
        with self._lock:
            if self.stopped.is_set():
                raise CancelledError
            self._future = self._engine.submit(self._note_begin(job), task='world_model',
                                                name='imagine')
            return self._future

    def _note_begin(self, job: Job) -> Job:
        with contextlib.closing(job):
            for _ in job:
                self.begun = True
                yield

    def _count(self) -> None:
        progress, now = self.progress, time.monotonic()
        self._times.append(now)
        progress.frames += 1
        progress.first_frame = progress.first_frame or now - self._accepted
        progress.rate = progress.frames / (now - self._accepted)
        progress.recent_rate = (len(self._times) - 1) / (now - self._times[0])
