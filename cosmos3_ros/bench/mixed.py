# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The three tasks at once on one engine: what the policy keeps and what the others get."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
import itertools
from pathlib import Path
import queue
import threading
import time

import numpy as np
import torch

from ..droid.recipe import RECIPE, request
from ..engine.engine import DeadlineExceeded, DeadlineUnreachable, Engine, Job
from ..engine.figures import Snapshot
from ..engine.library import ModelLibrary
from ..engine.trace import Trace
from ..model.cosmos3 import Cosmos3
from ..tasks.policy import policy
from ..tasks.question import Question
from ..tasks.reason import Reasoner
from ..tasks.rollout import Frame, RolloutRecipe, RolloutSession
from .policy import observation
from .report import Row

PERIOD = 0.5            # s between chunks, each due before the next is asked for
SLOWDOWN = 3            # a machine that is slow alone gets a period of so many chunks
LENGTH = 4096           # tokens of a question's slot, the default of the node
SIZE = (480, 640, 3)    # of a question's picture
WARM_UP = 'warm-up'     # the task that first uses count for


@dataclass(frozen=True)
class Load:
    """What runs beside the policy, for how long (s), and how device time is shared."""

    recipe: RolloutRecipe
    streams: int = 8
    tokens: int = 256
    seconds: float = 60.0
    weights: Mapping[str, float] = field(
        default_factory=lambda: {'reasoner': 1.0, 'world_model': 1.0})


@dataclass
class Chunks:
    """How the chunks of a phase ended; latencies in s from the pictures to the actions."""

    latencies: list[float] = field(default_factory=list)
    missed: int = 0
    refused: int = 0

    def add(self, future: Future, latency: float) -> None:
        """Count a chunk that has ended; raises what its job did."""
        error = future.exception()
        if error is None:
            self.latencies.append(latency)
        elif isinstance(error, DeadlineUnreachable):
            self.refused += 1
        elif isinstance(error, DeadlineExceeded):
            self.missed += 1
        else:
            raise error


def measure(checkpoint: str, policy_checkpoint: str, device: torch.device, dtype: torch.dtype,
            load: Load, trace: Path | None = None) -> list[Row]:
    """Rows of the policy alone, then of all three tasks. `trace`: file for jobs and units."""
    recorder = Trace() if trace is not None else None
    with Engine(device, weights=load.weights, trace=recorder) as engine:
        library = ModelLibrary(engine)
        base = library.acquire(checkpoint, dtype).result()
        driver = library.acquire(policy_checkpoint, dtype).result()
        counted = [WARM_UP]
        reasoner = Reasoner(base, lambda job: engine.submit(job, task=counted[0], name='reason'),
                            slots=load.streams, length=LENGTH)
        period = _warm_up(engine, base, driver, reasoner, load)
        counted[0] = 'reasoner'
        alone = _drive(engine, driver, period, max(3, round(load.seconds / 4 / period)))
        others = Others(engine, base, reasoner, load)
        before = others.wait_until_busy()
        together = _drive(engine, driver, period, max(3, round(load.seconds / period)))
        after = others.stop()
    if recorder is not None:
        recorder.write(trace)
    rows = Rows(str(dtype).removeprefix('torch.'), load, period)
    return rows.all(alone, together, before, after)


class Others:
    """A rollout that always goes on, and streams that always ask anew."""

    def __init__(self, engine: Engine, model: Cosmos3, reasoner: Reasoner, load: Load):
        self._engine, self._reasoner, self._load = engine, reasoner, load
        self._frames = self._tokens = 0
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._rollout = engine.submit(_endless(model, load.recipe, self._take),
                                      task='world_model', name='imagine')
        self._askers = [threading.Thread(target=self._ask, args=(stream,), daemon=True)
                        for stream in range(load.streams)]
        for asker in self._askers:
            asker.start()

    def wait_until_busy(self) -> tuple[Snapshot, int, int]:
        """Wait for the first frame and the first token; figures from which to count."""
        while not (self._frames and self._tokens):
            if self._rollout.done():
                self._rollout.result()
            time.sleep(0.01)
        return self._engine.snapshot(), self._frames, self._tokens

    def stop(self) -> tuple[Snapshot, int, int]:
        """Figures up to which to count; then both end."""
        counted = self._engine.snapshot(), self._frames, self._tokens
        self._stop.set()
        self._reasoner.cancel()
        self._rollout.cancel()
        for asker in self._askers:
            asker.join()
        return counted

    def _take(self, _: Frame) -> None:
        self._frames += 1

    def _ask(self, stream: int) -> None:
        random = np.random.default_rng(stream)
        for number in itertools.count():
            handle = self._reasoner.submit(_question(
                f'What is on table {number}?', random, self._load.tokens))
            written = 0
            for delta in handle:
                with self._lock:
                    self._tokens += delta.tokens - written
                written = delta.tokens
                if self._stop.is_set():
                    handle.cancel()
            if self._stop.is_set():
                return


def _endless(model: Cosmos3, recipe: RolloutRecipe, take) -> Job[None]:
    picture = np.random.default_rng(0).integers(0, 256, (recipe.height, recipe.width, 3), np.uint8)
    session = RolloutSession(model, 'A robot arm picks up a banana.', 'blurry', recipe, 0, picture)
    while True:
        yield from session.run(session.window_frames, take)


def _question(text: str, random: np.random.Generator, tokens: int) -> Question:
    return Question(text, (random.integers(0, 256, SIZE, np.uint8),), max_tokens=tokens)


def _warm_up(engine: Engine, base: Cosmos3, driver: Cosmos3, reasoner: Reasoner,
             load: Load) -> float:
    """Compile and capture what there is; returns the period of chunks in s."""
    for seed in range(4):
        started = time.monotonic()
        job = policy(driver, request(observation(seed), seed))
        engine.submit(job, task=WARM_UP, name='warm-up').result()
        took = time.monotonic() - started
    seen: list[Frame] = []
    rollout = engine.submit(_endless(base, load.recipe, seen.append), task=WARM_UP)
    random = np.random.default_rng(1)
    for _ in range(3):                                      # runs, recordings, replays
        asked = [reasoner.submit(_question('Warm up?', random, 16)) for _ in range(load.streams)]
        for handle in asked:
            handle.result()
    frames = 4 * 3 * load.recipe.window
    while len(seen) < frames and not rollout.done():        # three windows, two with a history
        time.sleep(0.05)
    rollout.cancel()
    engine.settle(60.0)
    return max(PERIOD, SLOWDOWN * took)


def _drive(engine: Engine, model: Cosmos3, period: float, count: int) -> Chunks:
    """Ask for a chunk every period, each due before the next; wait for all of them."""
    ended: queue.SimpleQueue[tuple[Future, float]] = queue.SimpleQueue()
    start = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, start + number * period - time.monotonic()))
        asked = time.monotonic()
        job = policy(model, request(observation(number), number))
        engine.submit(job, task='policy', deadline=asked + period, name=f'chunk {number}'
                      ).add_done_callback(lambda future, asked=asked: ended.put(
                          (future, time.monotonic() - asked)))
    chunks = Chunks()
    for _ in range(count):
        chunks.add(*ended.get())
    return chunks


class Rows:
    """Turns what was seen into rows."""

    def __init__(self, precision: str, load: Load, period: float):
        recipe = load.recipe
        self._precision, self._load = precision, load
        self._shape = (f'a chunk of {RECIPE.num_frames - 1} actions every {period:.3g} s, rollout '
                       f'{recipe.mode} {recipe.width}x{recipe.height}, {load.streams} streams')

    def all(self, alone: Chunks, together: Chunks, before: tuple[Snapshot, int, int],
            after: tuple[Snapshot, int, int]) -> list[Row]:
        """Rows in the order in which they are read."""
        (first, frames, tokens), (last, *_) = before, after
        seconds = last.time - first.time
        used = last.since(first)
        shared = sum(used.get(task, 0.0) for task in self._load.weights) or 1.0
        wanted = sum(self._load.weights.values())
        rows = [*self._chunks('alone', alone), *self._chunks('loaded', together)]
        if alone.latencies and together.latencies:
            rows.append(self._row('p99_over_alone_p50', '', (
                float(np.percentile(together.latencies, 99) / np.median(alone.latencies)),)))
        rows += [self._row('frames_per_s', '1/s', ((after[1] - frames) / seconds,)),
                 self._row('tok_per_s_total', '1/s', ((after[2] - tokens) / seconds,))]
        for task, weight in self._load.weights.items():
            rows.append(self._row(f'{task}_over_weight', '', (
                used.get(task, 0.0) / shared / (weight / wanted),)))
        for task in ('policy', *self._load.weights):
            figures = last.tasks[task]
            rows += [self._row(f'{task}_device', '', (used[task],)),
                     self._row(f'{task}_wait_p99_ms', 'ms', (1e3 * figures.wait_p99,)),
                     self._row(f'{task}_unit_ms', 'ms', (
                         1e3 * figures.device_time / figures.units,)),
                     self._row(f'{task}_longest_ms', 'ms', (1e3 * figures.longest_unit,))]
        return rows

    def _chunks(self, phase: str, chunks: Chunks) -> Sequence[Row]:
        rows = [self._row(f'{phase}_{name}', '', (float(count),)) for name, count in (
            ('chunks', len(chunks.latencies)), ('missed', chunks.missed),
            ('refused', chunks.refused))]
        if chunks.latencies:
            rows += [self._row(f'{phase}_p{q}_ms', 'ms', (
                1e3 * float(np.percentile(chunks.latencies, q)),)) for q in (50, 99)]
        return rows

    def _row(self, metric: str, unit: str, runs: tuple[float, ...]) -> Row:
        return Row('mixed', self._shape, self._precision, metric, unit, runs)
