# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Copies to the device for which the host does not wait."""
from __future__ import annotations

import torch
from torch import Tensor


def upload(values: Tensor, device: torch.device) -> Tensor:
    """Values of the host on the device; they may be changed at once."""
    if device.type != 'cuda':
        return values.clone()
    return values.pin_memory().to(device, non_blocking=True)
