# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Copies to the device and from it, for which the host does not wait."""
from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def upload(values: Tensor, device: torch.device) -> Tensor:
    """Values of the host on the device; they may be changed at once."""
    if device.type != 'cuda':
        return values.clone()
    return values.pin_memory().to(device, non_blocking=True)


class Download:
    """Values of the device on their way to the host."""

    def __init__(self, values: Tensor):
        self._host, self._event = values, None
        if values.is_cuda:
            self._host = torch.empty_like(values, device='cpu', pin_memory=True)
            self._host.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def __len__(self) -> int:
        return len(self._host)

    @property
    def arrived(self) -> bool:
        """Whether `get` would not wait."""
        return self._event is None or self._event.query()

    def get(self) -> np.ndarray:
        """Wait for the values; they lie in memory of their own."""
        if self._event is not None:
            self._event.synchronize()
        return self._host.numpy().copy(order='K')
