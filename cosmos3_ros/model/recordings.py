# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Work that comes again and again with the same shapes, as CUDA graphs.

Launched call by call, a layer of a small pass takes the host longer than the device. A graph is
launched at once.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor

T = TypeVar('T')

KEPT = 16       # recordings of one owner


class Graph(Protocol):
    """What a unit of work is recorded into."""

    def record(self) -> AbstractContextManager[None]:
        """Take in what is launched inside, without running it."""

    def replay(self) -> None:
        """Launch it all."""


@dataclass
class _Recording:
    """`graphs`: one for each unit; `inputs` and `result` lie where the graphs know them."""

    inputs: tuple[Tensor, ...]
    graphs: list[Graph] = field(default_factory=list)
    result: Any = None


class Recordings:
    """Jobs by key: run at first, recorded the second time, replayed from then on.

    A job takes its inputs as arguments, from which they are copied; all else that it reads and
    writes must stay where it is for as long as its key stands for it. Its result lies where its
    next run writes it again, and where another key's may. Runs of one owner's Recordings must not
    overlap: they share their working memory. On a CPU jobs are only run.
    """

    def __init__(self, make_graph: Callable[[], Graph] | None = None):
        self._make_graph = make_graph
        self._known: OrderedDict[Hashable, _Recording | None] = OrderedDict()

    def run(self, key: Hashable, work: Callable[..., Generator[Any, None, T]],
            *inputs: Tensor) -> Generator[None, None, T]:
        """The job `work(*inputs)`: yields where it does, and returns its result."""
        if self._make_graph is None:
            if not inputs[0].is_cuda:
                return (yield from work(*inputs))
            self._make_graph = _CudaGraphs()
        if key not in self._known:
            result = yield from work(*inputs)       # compiles and chooses, which no graph may
            self._known[key] = None
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return result
        recording = self._known[key]
        if recording is None:
            recording = yield from self._record(work, inputs)
            self._known[key] = recording
        else:
            for place, value in zip(recording.inputs, inputs, strict=True):
                place.copy_(value)
            for graph in recording.graphs[:-1]:
                graph.replay()
                yield
            recording.graphs[-1].replay()
        if key in self._known:
            self._known.move_to_end(key)
        return recording.result

    def _record(self, work: Callable[..., Generator[Any, None, Any]],
                inputs: tuple[Tensor, ...]) -> Generator[None, None, _Recording]:
        """Record a job unit by unit, and run each unit as soon as it is recorded."""
        recording = _Recording(tuple(value.clone() for value in inputs))
        job, ended = work(*recording.inputs), False
        try:
            while True:
                graph = self._make_graph()
                with graph.record():
                    try:
                        next(job)
                    except StopIteration as stop:
                        recording.result, ended = stop.value, True
                recording.graphs.append(graph)
                graph.replay()
                if ended:
                    return recording
                yield
        finally:
            job.close()


class _CudaGraph:
    def __init__(self, stream: torch.cuda.Stream, pool: Any):
        self._graph, self._stream, self._pool = torch.cuda.CUDAGraph(), stream, pool

    @contextmanager
    def record(self):
        with torch.cuda.stream(self._stream):
            # other threads may go on using the device meanwhile
            self._graph.capture_begin(pool=self._pool, capture_error_mode='thread_local')
            try:
                yield
            finally:
                self._graph.capture_end()

    def replay(self) -> None:
        self._graph.replay()


class _CudaGraphs:
    """Makes graphs that are replayed one after the other, in the memory that they share.

    With its last graph (forgotten, or given up while it was recorded) a pool of memory is lost:
    PyTorch refuses to record into it again.
    """

    def __init__(self) -> None:
        self._stream, self._pool = torch.cuda.Stream(), None
        self._living: WeakSet[_CudaGraph] = WeakSet()

    def __call__(self) -> Graph:
        if not self._living:
            self._pool = torch.cuda.graph_pool_handle()
        graph = _CudaGraph(self._stream, self._pool)
        self._living.add(graph)
        return graph
