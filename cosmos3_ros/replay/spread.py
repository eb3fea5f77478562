# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Many bags, one after the other here, or side by side on the machines of a Ray cluster."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
import hashlib
from pathlib import Path
import sys

from . import report, runner
from .setup import Setup
from .timeline import EveryRows, Pace, WithLatency

TRIES = 2               # of a bag


@dataclass(frozen=True)
class Job:
    """One bag and how it is replayed."""

    bag: str
    checkpoint: str
    setup: Setup
    execute: int
    latency: float | None
    instruction: str
    seed: int
    device: str
    precision: str

    @property
    def stem(self) -> str:
        """Name of its result's file, another one for other settings."""
        place = Path(self.bag)
        whole = repr((self, str(place.resolve()) if place.exists() else self.bag))
        return f'{place.stem}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}'

    def pace(self) -> Pace:
        if self.latency is None:
            return EveryRows(self.execute)
        return WithLatency(self.latency, self.setup.chunks_in_flight)


Outcome = tuple[Job, dict | None, str]      # a result, or why there is none


def run_all(jobs: Sequence[Job], folder: Path, address: str | None,
            say: Callable[[str], None] = print) -> list[tuple[str, str]]:
    """Replay every bag; returns those that failed twice, with the reason.

    Each result goes to `folder` as JSON and HTML when it comes. Bags whose result is there are
    not replayed again. `address`: of a Ray cluster, '' starts one here, None takes no Ray.
    All jobs have one checkpoint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    left = [job for job in jobs if not (folder / f'{job.stem}.json').exists()]
    if len(left) < len(jobs):
        say(f'{len(jobs) - len(left)} of {len(jobs)} bags are in {folder} already')
    failed: list[tuple[str, str]] = []
    for job, result, error in (_here(left) if address is None else _on_ray(left, address)):
        if result is None:
            failed.append((job.bag, error))
            continue
        report.write(result, folder / f'{job.stem}.html')
        part = folder / f'{job.stem}.part'  # a file that is there is whole
        runner.write_json(result, part)
        part.rename(folder / f'{job.stem}.json')
        say(runner.verdict(result))
    for bag, error in failed:
        say(f'failed {TRIES} times: {bag}: {error}')
    return failed


class Worker:
    """One engine and one copy of the model, for bag after bag."""

    def __init__(self, checkpoint: str, device: str, precision: str):
        self._loaded = runner.Loaded(checkpoint, device, precision)

    def replay(self, job: Job) -> tuple[dict | None, str]:
        """The result, or why there is none."""
        try:
            return self._loaded.run(job.bag, job.setup, job.pace(), job.instruction, job.seed), ''
        except Exception as error:      # noqa: B902 - one bag's fault is no other's
            return None, f'{type(error).__name__}: {error}'


def _here(jobs: Sequence[Job]) -> Iterator[Outcome]:
    if not jobs:
        return
    worker = Worker(jobs[0].checkpoint, jobs[0].device, jobs[0].precision)
    for job in jobs:
        for _ in range(TRIES):
            result, error = worker.replay(job)
            if result is not None:
                break
        yield job, result, error


def _on_ray(jobs: Sequence[Job], address: str) -> Iterator[Outcome]:
    """Outcomes in the order in which they come; a GPU each for the workers where there are any."""
    try:
        import ray
    except ImportError as error:
        raise ValueError('--ray: Ray is not installed; run pip install "cosmos3_ros[ray]"'
                         ) from error
    if not jobs:
        return
    ray.init(address=address or None, log_to_driver=False, configure_logging=False,
             runtime_env={'env_vars': {'PYTHONPATH': ':'.join(filter(None, sys.path))}}
             if not address else None)
    try:
        yield from _served(ray, jobs)
    finally:
        ray.shutdown()


def _served(ray, jobs: Sequence[Job]) -> Iterator[Outcome]:
    first, found = jobs[0], ray.cluster_resources()
    gpus = int(found.get('GPU', 0)) if first.device != 'cpu' else 0
    count = min(len(jobs), gpus or max(1, int(found.get('CPU', 1))))
    remote = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0, max_restarts=-1)(Worker)
    workers = [remote.remote(first.checkpoint, first.device, first.precision)
               for _ in range(count)]
    waiting = [(job, 1) for job in jobs]
    busy: dict = {}
    while waiting or busy:
        while waiting and workers:
            job, attempt = waiting.pop(0)
            worker = workers.pop()
            busy[worker.replay.remote(job)] = worker, job, attempt
        (done,), _ = ray.wait(list(busy), num_returns=1)
        worker, job, attempt = busy.pop(done)
        workers.append(worker)
        try:
            result, error = ray.get(done)
        except ray.exceptions.RayError as failure:      # the worker's process ended
            result, error = None, f'{type(failure).__name__}: {failure}'
        if result is None and attempt < TRIES:
            waiting.append((job, attempt + 1))
        else:
            yield job, result, error
