# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The models that are loaded, one copy of each."""
from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
import weakref

import torch

from ..model.checkpoint import loading
from ..model.cosmos3 import Cosmos3
from .engine import Engine


class ModelLibrary:
    """Loads models on the engine's thread and hands out the same copy while anyone holds it.

    A model loaded while others are held shares every tensor that is equal.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        self._loaded: weakref.WeakValueDictionary[tuple[str, torch.dtype], Cosmos3] = (
            weakref.WeakValueDictionary())
        self._loading = False           # used on the engine's thread alone

    def acquire(self, reference: str, dtype: torch.dtype) -> Future[Cosmos3]:
        """Future of a model; fails with CheckpointError. Dropping the model frees its memory."""
        return self._engine.submit(self._acquire(reference, dtype), name=f'load {reference}')

    def _acquire(self, reference: str, dtype: torch.dtype) -> Generator[None, None, Cosmos3]:
        while self._loading:            # one at a time: what it loads can be shared
            yield
        self._loading = True
        try:
            model = self._loaded.get((reference, dtype))
            if model is None:
                model = yield from loading(reference, self._engine.device, dtype,
                                           self._loaded.values())
                self._loaded[reference, dtype] = model
            return model
        finally:
            self._loading = False
