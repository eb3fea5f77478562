# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The noise that a chunk starts from, drawn beside other work."""
from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
import threading

import numpy as np
import torch
from torch import Tensor

KEPT = 8        # tensors that were drawn ahead (DROID: 2 MB each)


def gaussian(seed: int, shape: tuple[int, ...]) -> Tensor:
    """fp32 noise as the released policy server draws it: each tensor from its own start."""
    values = np.random.RandomState(seed).standard_normal(shape)
    return torch.from_numpy(values.astype(np.float32))


class Ahead:
    """Draws in a thread, and then for the next seed: chunks that follow each other count up.

    On a fast device the drawing takes longer than the encoding of a picture.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix='noise')
        self._lock = threading.Lock()
        self._drawn: OrderedDict[tuple[int, tuple[int, ...]], Future[Tensor]] = OrderedDict()

    def draw(self, seed: int, shape: tuple[int, ...]) -> Future[Tensor]:
        """`gaussian(seed, shape)`; whoever asks has it alone."""
        with self._lock:
            noise = self._drawn.pop((seed, shape), None) or self._submit(seed, shape)
            following = (seed + 1) % 2**32, shape
            if following not in self._drawn:
                self._drawn[following] = self._submit(*following)
            while len(self._drawn) > KEPT:
                self._drawn.popitem(last=False)
        return noise

    def _submit(self, seed: int, shape: tuple[int, ...]) -> Future[Tensor]:
        return self._thread.submit(gaussian, seed, shape)
