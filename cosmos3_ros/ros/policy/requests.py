# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""When an observation is taken, and which results are used."""
from __future__ import annotations

from collections.abc import Callable
import threading
import time
from typing import Any

import numpy as np

from cosmos3_ros.control.gate import GateError, check_finite
from cosmos3_ros.droid.actions import joint_targets
from cosmos3_ros.droid.observation import Observation
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.ros.policy.counts import Counts
from cosmos3_ros.ros.policy.pipeline import Job, Pipeline, Request
from cosmos3_ros.ros.policy.settings import Settings
from cosmos3_ros.sensing.intake import Intake, observe
from cosmos3_ros.sensing.streams import Refusal, Streams

SHORT = 0.5             # s; cameras whose pictures come one after the other are refused for less
SIM_DEADLINE = 60.0     # s; simulated time may run slower than the engine's


class Requests:
    """Keeps as many requests in flight as wanted while there is an instruction.

    `make_job`: see PolicyNode. `now`: node time in ns, 0 for none yet. `accept` gets the request
    and its targets, float64 [h, 8], finite and in order, on the delivering thread. `dropped` gets
    a code, a reason and the request's sequence number, None before there is a request, for every
    observation that gives no chunk.
    """

    def __init__(self, engine: Engine, make_job: Callable[[Observation, int], Job],
                 streams: Streams, settings: Settings, now: Callable[[], int],
                 accept: Callable[[Request, np.ndarray], None],
                 dropped: Callable[[str, str, int | None], None]):
        self.settings = settings
        self.instruction = ''           # '': nothing is asked
        self.simulated_time = False
        self.counts = Counts()
        self._intake = Intake(streams)
        self._now = now
        self._accept = accept
        self._dropped = dropped
        self.pipeline = Pipeline(engine, self._observe, make_job, self._deliver, self._drop,
                                 self.try_start)
        self._starting = threading.Lock()
        self._first_seed = self._seeds_used = 0
        self._published = 0, 0          # epoch and wrist picture's stamp of the newest chunk

    @property
    def waiting_for(self) -> str:
        """Why no observation could be taken for a while; empty if none is wanted."""
        if not (self.instruction and (refused := self._intake.refused)):
            return ''
        return refused[1].text if time.monotonic() - refused[2] > SHORT else ''

    def restart(self) -> None:
        """Count from 0 again and start new seeds."""
        self.pipeline.restart()
        self.counts = Counts()
        self._intake.refused = None
        self.set_seed(-1)

    def instruct(self, text: str, seed: int = -1, flush_at: int | None = None) -> int:
        """Ask for something else, with seeds from `seed` on if it is not negative.

        `flush_at` (ns): drop what is in flight and use no observation from before then. Returns
        the sequence number of the first request for it.
        """
        with self._starting:
            self.instruction = text
            if seed >= 0:
                self.set_seed(seed)
            if flush_at is not None:
                self._intake.skip_to(flush_at)
                self.pipeline.flush()
            return self.pipeline.sequence

    def start_anew(self) -> None:
        """Drop what is in flight and forget which observations were used: time has jumped."""
        with self._starting:
            self.pipeline.flush()
            self._intake.forget()

    def set_seed(self, seed: int) -> None:
        """Count seeds up from `seed`, else from the parameter, else from a drawn one."""
        fixed = seed if seed >= 0 else self.settings['seed']
        self._first_seed = fixed if fixed >= 0 else int(np.random.default_rng().integers(2**31))
        self._seeds_used = 0

    def try_start(self) -> None:
        """Take an observation if one is wanted and to be had. Called from many threads."""
        if not self._starting.acquire(blocking=False):
            return
        unused = None
        try:
            now, instruction = self._now(), self.instruction
            free = self.pipeline.in_flight < self.settings['chunks_in_flight']
            if now and instruction and free:
                unused = self._start(now, instruction)
        finally:
            self._starting.release()
        if unused is not None:          # without the lock: whoever is told may call `instruct`
            self._dropped(unused.code, unused.text, None)

    def _start(self, now: int, instruction: str) -> Refusal | None:
        """Take an observation; returns why an earlier one stays unused, if that is clear now."""
        snapshot, unused = self._intake.take(now)
        if snapshot is None:
            return unused
        seed = (self._first_seed + self._seeds_used) % 2**32
        self._seeds_used += 1
        age = (now - snapshot.stamp) * 1e-9
        reply_in = (SIM_DEADLINE if self.simulated_time else self.settings['max_reply_age'] - age)
        self.pipeline.start(snapshot, instruction, seed, time.monotonic() + reply_in)
        return unused

    def _observe(self, request: Request) -> Observation:
        return observe(request.snapshot, request.instruction, self.settings.gripper_range())

    def _deliver(self, request: Request, result: Any, latency: float) -> None:
        targets = joint_targets(result.actions)
        if refusal := self._refusal(request, targets):
            self._drop(request, *refusal)
            return
        self._published = request.epoch, request.snapshot.stamp
        self.counts.chunk_latency.add(latency * 1e3)
        self._accept(request, targets)

    def _refusal(self, request: Request, targets: np.ndarray) -> tuple[str, str] | None:
        try:
            check_finite(targets, self.settings.column_names)
        except GateError as error:
            return 'not_finite', str(error)
        age = (self._now() - request.snapshot.stamp) * 1e-9
        limit = self.settings['max_reply_age']
        if age > limit:
            return 'late', (f'chunk {request.sequence} came {age * 1e3:.0f} ms after its '
                            f'observation, wanted at most {limit * 1e3:.0f} (max_reply_age)')
        epoch, newest = self._published
        if request.epoch == epoch and request.snapshot.stamp <= newest:
            return 'superseded', (f'chunk {request.sequence} came after the chunk of a newer '
                                  'observation')
        return None

    def _drop(self, request: Request, code: str, text: str) -> None:
        self._dropped(code, text, request.sequence)
