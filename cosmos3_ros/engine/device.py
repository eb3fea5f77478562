# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Which device and which compute type a machine offers."""
from __future__ import annotations

import torch

DEVICES = ('auto', 'cuda', 'cpu')
PRECISIONS = {'fp32': torch.float32, 'bf16': torch.bfloat16, 'fp8': torch.float8_e4m3fn}


def pick_device(name: str) -> torch.device:
    """Device of a name in DEVICES; 'auto' is CUDA where there is one. Raises ValueError."""
    if name not in DEVICES:
        raise ValueError(f'device: found {name!r}, wanted one of {", ".join(DEVICES)}')
    available = torch.cuda.is_available()
    if name == 'cuda' and not available:
        raise ValueError('device: found \'cuda\', but PyTorch sees no CUDA device: check the '
                         'driver and the PyTorch build, or set device to cpu')
    return torch.device('cuda' if available and name != 'cpu' else 'cpu')


def pick_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Compute type; 'auto' is bf16 on CUDA and fp32 on a CPU. Raises ValueError.

    'fp8' is the type of the generation tower's products alone; it needs CUDA.
    """
    if precision == 'auto':
        return torch.bfloat16 if device.type == 'cuda' else torch.float32
    if precision not in PRECISIONS:
        raise ValueError(f'precision: found {precision!r}, wanted auto, '
                         f'{" or ".join(PRECISIONS)}')
    if precision == 'fp8' and device.type != 'cuda':
        raise ValueError('precision: found fp8 on a CPU, which has no such products; wanted '
                         'fp32 or bf16, or a CUDA device')
    return PRECISIONS[precision]
