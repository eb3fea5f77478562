# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs on the CPU: what is recorded is done again with the tensors it was first done with."""
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HOST = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.lift_fresh.default,
        torch.ops.aten.nonzero.default}


class Replayed(TorchDispatchMode):
    """Takes in calls of torch; one that needs the host, which a graph has not, is an error.

    What a recorded call overwrites is put back, as recording is not running.
    """

    def __init__(self):
        super().__init__()
        self._calls = []
        self._before = []
        self.replays = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function not in HOST, f'{function} in a graph'
        written = [value for value, argument in zip(args, function._schema.arguments, strict=False)
                   if argument.alias_info is not None and argument.alias_info.is_write]
        self._before += [(value, value.clone()) for value in written]
        result = function(*args, **(kwargs or {}))
        self._calls.append((function, args, kwargs or {}, result))
        return result

    @contextmanager
    def record(self):
        with self:
            yield
        while self._before:
            value, before = self._before.pop()
            value.copy_(before)

    def replay(self):
        self.replays += 1
        for function, args, kwargs, result in self._calls:
            again = function(*args, **kwargs)
            for place, value in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(place, torch.Tensor) and place.data_ptr() != value.data_ptr():
                    place.copy_(value)
