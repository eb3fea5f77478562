# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Answers about pictures: time to the first token and tokens per second, for many askers."""
from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
import statistics
import time

import numpy as np

from ..tasks.question import Answer, Question
from ..tasks.reason import Reasoner
from .report import Row
from .setting import Setting

WARM_UPS = 3    # work of a new shape is run, recorded, then replayed


def answers(setting: Setting, streams: int) -> list[Row]:
    """So many questions asked at once, each with a picture that was not seen before.

    A run's time to the first token, and its tokens per second and stream, are medians of its
    streams; tokens per second in all count from the first question to the last answer.
    """
    sizes = setting.sizes
    reasoner = Reasoner(setting.model('base'), setting.engine.submit, slots=streams,
                        length=sizes.slot, fp8_decode=setting.precision == 'fp8')
    for few in (few for few in (1, 2, 4) if few < streams):   # askers do not come all at once
        for run in range(WARM_UPS):
            ask(reasoner, few, setting, 1000 * few + run)
    runs = [ask(reasoner, streams, setting, run)
            for run in range(WARM_UPS + setting.runs)][WARM_UPS:]
    asked = runs[0][0][0]
    first, stream, total = _floors(setting, streams, asked.prompt_tokens)
    shape = (f'{streams} stream{"s" * (streams > 1)}, a picture of '
             f'{sizes.question[0]}x{sizes.question[1]} each, {asked.prompt_tokens} tokens read, '
             f'{sizes.tokens} written')

    def row(metric: str, unit: str, values: Sequence[float], floor: float) -> Row:
        return Row(f'reason_{streams}', shape, setting.precision, metric, unit, tuple(values),
                   floor)
    return [
        row('ttft_ms', 'ms', [1e3 * statistics.median(a.time_to_first_token for a in run)
                              for run, _ in runs], 1e3 * first),
        row('tok_per_s_stream', '1/s', [statistics.median(a.tokens_per_second for a in run)
                                        for run, _ in runs], stream),
        row('tok_per_s_total', '1/s', [sum(a.completion_tokens for a in run) / took
                                       for run, took in runs], total)]


def ask(reasoner: Reasoner, streams: int, setting: Setting,
        seed: int) -> tuple[list[Answer], float]:
    """Ask so many questions at once; the answers, and the seconds until the last."""
    random = np.random.default_rng(seed)
    width, height = setting.sizes.question
    questions = [Question(f'What is on table {i}?',
                          (random.integers(0, 256, (height, width, 3), np.uint8),),
                          max_tokens=setting.sizes.tokens) for i in range(streams)]
    started = time.perf_counter()
    with ThreadPoolExecutor(streams) as askers:
        found = list(askers.map(lambda one: reasoner.submit(one).result(), questions))
    return found, time.perf_counter() - started


def _floors(setting: Setting, streams: int, prompt: int) -> tuple[float, float, float]:
    """Of the median first token (s), and the most tokens per second, a stream and in all.

    The device reads one prompt after the other, so the median stream waits for half of them.
    """
    floors, sizes = setting.floors('base'), setting.sizes
    vision = setting.checkpoint('base').vision_config
    patches = sizes.question[0] * sizes.question[1] // vision.patch_size**2
    read = floors.question(vision, patches, prompt)
    token = floors.token(streams, prompt + sizes.tokens / 2)
    total = streams * read + (sizes.tokens - 1) * token
    return (streams + 1) / 2 * read, 1 / token, streams * sizes.tokens / total
