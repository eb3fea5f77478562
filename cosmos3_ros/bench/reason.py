# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Answers about pictures: time to the first token and tokens per second, for many askers."""
from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
import time

import numpy as np
import torch

from ..engine.engine import Engine
from ..model.cosmos3 import Cosmos3
from ..tasks.question import Answer, Question
from ..tasks.reason import Reasoner
from .report import Row

LENGTH = 4096           # tokens of a slot, the default of the node
SIZE = (480, 640, 3)


def measure(model: Cosmos3, precision: str, runs: int, streams: Sequence[int],
            tokens: int) -> list[Row]:
    """Rows for each number of questions asked at once, on an engine of its own, as on a robot.

    Every question has a picture that was not seen before. `runs` after one that warms up.
    """
    rows: list[Row] = []
    with Engine(model.device) as engine:
        for count in streams:
            reasoner = Reasoner(model, engine.submit, slots=count, length=LENGTH)
            _ask(reasoner, count, min(tokens, 32), seed=0)
            if model.device.type == 'cuda':
                torch.cuda.reset_peak_memory_stats(model.device)
            results = [_ask(reasoner, count, tokens, seed=1 + run) for run in range(runs)]
            rows += _rows(model, precision, count, tokens, results)
            del reasoner                # and the memory of its slots
    return rows


def _ask(reasoner: Reasoner, count: int, tokens: int,
         seed: int) -> tuple[list[Answer], float]:
    """Ask so many questions at once; the answers, and the seconds until the last."""
    random = np.random.default_rng(seed)
    questions = [Question(f'What is on table {i}?', (random.integers(0, 256, SIZE, np.uint8),),
                          max_tokens=tokens) for i in range(count)]
    started = time.perf_counter()
    with ThreadPoolExecutor(count) as askers:
        answers = list(askers.map(lambda one: reasoner.submit(one).result(), questions))
    return answers, time.perf_counter() - started


def _rows(model: Cosmos3, precision: str, count: int, tokens: int,
          results: Sequence[tuple[list[Answer], float]]) -> list[Row]:
    answers = [answer for run, _ in results for answer in run]
    first = [1e3 * answer.time_to_first_token for answer in answers]
    total = [sum(answer.completion_tokens for answer in run) / took for run, took in results]
    shape = f'{count} streams, 640x480, {answers[0].prompt_tokens} + {tokens} tokens'
    rows = [
        Row('reason', shape, precision, 'ttft_ms_p50', 'ms', tuple(first)),
        Row('reason', shape, precision, 'ttft_ms_p99', 'ms', (float(np.percentile(first, 99)),)),
        Row('reason', shape, precision, 'tok_per_s_stream', '1/s',
            tuple(answer.tokens_per_second for answer in answers)),
        Row('reason', shape, precision, 'tok_per_s_total', '1/s', tuple(total))]
    if model.device.type == 'cuda':
        peak = torch.cuda.max_memory_allocated(model.device) / 1e9
        rows.append(Row('reason', shape, precision, 'peak_memory_gb', 'GB', (peak,)))
    return rows
