# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The models that are loaded, one copy of each."""
from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
import gc
import weakref

import torch

from ..model.checkpoint import Checkpoint, loading, open_checkpoint
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
        """Future of a model; dropping the model frees its memory.

        The checkpoint is found, downloaded if need be, and checked in the calling thread: raises
        CheckpointError.
        """
        checkpoint = open_checkpoint(reference, self._engine.device)
        return self._engine.submit(self._acquire(checkpoint, dtype), task='load',
                                   name=f'load {reference}')

    def _acquire(self, checkpoint: Checkpoint,
                 dtype: torch.dtype) -> Generator[None, None, Cosmos3]:
        while self._loading:            # one at a time: what it loads can be shared
            yield
        self._loading = True
        try:
            model = self._loaded.get((checkpoint.name, dtype))
            if model is None:
                model = yield from loading(checkpoint, self._engine.device, dtype,
                                           self._loaded.values())
                self._loaded[checkpoint.name, dtype] = model
                gc.freeze()     # a full collection would walk through it all and stop the world
            return model
        finally:
            self._loading = False
