# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a measurement depends on beside its own shape: the machine and the versions."""
from __future__ import annotations

from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
import platform
import subprocess
from typing import Any

import torch

_CLOCKS = {'clock_sm_mhz': 'clocks.sm', 'clock_memory_mhz': 'clocks.mem',
           'clock_sm_max_mhz': 'clocks.max.sm', 'power_limit_w': 'power.limit',
           'temperature_c': 'temperature.gpu', 'driver': 'driver_version'}


def environment(device: torch.device) -> dict[str, Any]:
    """GPU, clocks as found, driver, versions, commit and date; None for what cannot be told."""
    return {
        'device': device.type,
        'gpu': torch.cuda.get_device_name(device) if device.type == 'cuda' else None,
        'cpu': platform.processor() or platform.machine(),
        **_gpu_state(device),
        'python': platform.python_version(),
        'torch': torch.__version__,
        'cuda': torch.version.cuda,
        'cudnn': torch.backends.cudnn.version(),
        **{name: _version(name) for name in ('triton', 'diffusers', 'transformers')},
        'cosmos3_ros': _version('cosmos3_ros') or 'source tree',
        'commit': _output('git', '-C', str(Path(__file__).parent), 'rev-parse', 'HEAD'),
        'changed': bool(_output('git', '-C', str(Path(__file__).parent), 'status', '--porcelain',
                                '--untracked-files=no')),
        'date': datetime.now(UTC).isoformat(timespec='seconds'),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpu_state(device: torch.device) -> dict[str, str | None]:
    answer = None
    if device.type == 'cuda':
        uuid = torch.cuda.get_device_properties(device).uuid
        answer = _output('nvidia-smi', '-i', f'GPU-{uuid}', '--format=csv,noheader,nounits',
                         '--query-gpu=' + ','.join(_CLOCKS.values()))
    values = answer.split(', ') if answer else []
    return dict(zip(_CLOCKS, values)) if len(values) == len(_CLOCKS) else dict.fromkeys(_CLOCKS)


def _output(*command: str) -> str | None:
    """What a command prints; None if it is not there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
