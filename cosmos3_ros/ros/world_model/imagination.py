# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""One Imagine goal from acceptance to result, on a thread of its own.

The thread hands the engine one segment after the other and publishes frames as they come. The
engine never waits for it: frames that are not taken in time are dropped, which their index shows.
"""
from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
import threading
import time

from cosmos3_ros.action import Imagine
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.stream import Stream
from cosmos3_ros.tasks.rollout import Frame

Outcome = Imagine.Result
Segment = Callable[[Callable[[Frame], None]], Generator[None, None, None]]
FRAMES_HELD = 16        # frames that wait for the publishing thread: four latents


@dataclass
class Progress:
    """Figures of one goal; times in s since acceptance."""

    frames: int = 0
    first_frame: float = 0.0
    rate: float = 0.0


class Imagination:
    """Runs the segments of one goal.

    `segments`: jobs for the engine in order, each a function of the function that takes frames;
    the iterator may wait for something before it gives the next. `publish` is called with every
    frame, `report` with the progress after every latent's worth of frames.
    """

    def __init__(self, engine: Engine, segments: Iterator[Segment],
                 publish: Callable[[Frame], None], report: Callable[[Progress], None]):
        self.progress = Progress()
        self._engine = engine
        self._segments = segments
        self._publish = publish
        self._report = report
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._future: Future | None = None
        self._started = time.monotonic()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Stop at the engine's next step; `run` returns soon after."""
        with self._lock:
            self._cancelled.set()
            future = self._future
        if future is not None:
            future.cancel()

    def run(self) -> None:
        """Stream to the end. Raises CancelledError, or what a segment raised."""
        for segment in self._segments:
            stream: Stream[Frame] = Stream(FRAMES_HELD)
            with self._lock:
                if self.cancelled:
                    raise CancelledError
                self._future = self._engine.submit(segment(stream.put), name='imagine')
            self._future.add_done_callback(lambda _, stream=stream: stream.end())
            while (frame := stream.get()) is not None and not self.cancelled:
                self._take(frame)
            self._future.result()
        if self.cancelled:
            raise CancelledError

    def _take(self, frame: Frame) -> None:
        self._publish(frame)
        progress, now = self.progress, time.monotonic() - self._started
        progress.frames += 1
        progress.first_frame = progress.first_frame or now
        progress.rate = progress.frames / now
        if frame.index % 4 == 0:        # a latent's last frame: index 0, 4, 8, ...
            self._report(progress)
