# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What this machine can do at best: the rates that floors are divided by."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import statistics
import time
from typing import Any

import torch

SIZES = {'cuda': ((8192, 8192, 8192), (12288, 9216, 2048), (16384, 8192, 8192)),
         'cpu': ((384, 384, 384),)}                 # rows, inner, columns of a product
COPIED = {'cuda': 2 << 30, 'cpu': 64 << 20}         # bytes
RUNS = 7


@dataclass(frozen=True)
class Rates:
    """`matmul`: operations a second, by precision; `copy`: bytes read and written a second."""

    matmul: dict[str, float]
    copy: float

    def values(self) -> dict[str, float]:
        """For JSON, in TFLOP/s and TB/s."""
        return {f'matmul_{name}_tflops': rate / 1e12 for name, rate in self.matmul.items()} | {
            'copy_tb_per_s': self.copy / 1e12}


def measure_rates(device: torch.device) -> Rates:
    """The best matrix product of a few large ones in each precision, and a device copy."""
    makers = {'bf16': lambda *size: _product(device, torch.bfloat16, *size),
              'fp32': lambda *size: _product(device, torch.float32, *size)}
    if device.type == 'cuda' and torch.cuda.get_device_capability(device) >= (8, 9):
        makers['fp8'] = lambda *size: _scaled_product(device, *size)
    matmul = {}
    for name, make in makers.items():
        matmul[name] = max(2.0 * m * k * n / _seconds(device, make(m, k, n))
                           for m, k, n in SIZES[device.type])
    source = torch.ones(COPIED[device.type], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return Rates(matmul, 2.0 * len(source) / _seconds(device, lambda: target.copy_(source)))


def _product(device: torch.device, dtype: torch.dtype, m: int, k: int,
             n: int) -> Callable[[], Any]:
    a, b = torch.randn(m, k, device=device, dtype=dtype), torch.randn(n, k, device=device,
                                                                      dtype=dtype)
    return lambda: a @ b.T


def _scaled_product(device: torch.device, m: int, k: int, n: int) -> Callable[[], Any]:
    a, b = (torch.randn(rows, k, device=device).to(torch.float8_e4m3fn) for rows in (m, n))
    one = torch.ones((), device=device)
    return lambda: torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _seconds(device: torch.device, call: Callable[[], Any]) -> float:
    """Median over runs; on CUDA by events, so that launches do not count."""
    call()
    return statistics.median(_events(call) if device.type == 'cuda' else _clock(call))


def _events(call: Callable[[], Any]) -> list[float]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(RUNS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [1e-3 * a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


def _clock(call: Callable[[], Any]) -> list[float]:
    found = []
    for _ in range(RUNS):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return found
