# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""All works under the names of their rows, and running some of them."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
import sys
import traceback
from typing import Any

import torch

from ..engine.engine import Engine
from ..engine.library import ModelLibrary
from . import diffusers_peer, fidelity, policy, reason, start, vae, video
from .environment import environment
from .rates import measure_rates
from .report import HEADER, Row, line, save
from .setting import QUICK, Setting, Sizes

Measure = Callable[[Setting], list[Row]]


@dataclass(frozen=True)
class Work:
    """`group`: the `cosmos3 bench GROUP` it belongs to; `fp8`: that precision changes it."""

    group: str
    measure: Measure
    fp8: bool = True


WORKS = {
    'policy_droid': Work('policy', policy.droid),
    'policy_832x480': Work('policy', partial(policy.actions, large=True)),
    'policy_640x360': Work('policy', partial(policy.actions, large=False)),
    'policy_two_in_flight': Work('policy', policy.two_in_flight),
    'image_640': Work('image', video.image),
    'reason_1': Work('reason', partial(reason.answers, streams=1)),
    'reason_4': Work('reason', partial(reason.answers, streams=4), fp8=False),
    'reason_8': Work('reason', partial(reason.answers, streams=8), fp8=False),
    'reason_32': Work('reason', partial(reason.answers, streams=32), fp8=False),
    'vae_decode': Work('vae', vae.decode, fp8=False),
    'rollout_kv': Work('rollout', partial(video.rollout, mode='kv')),
    'rollout_chained': Work('rollout', partial(video.rollout, mode='chained')),
    'clip_i2v_121': Work('clip', partial(video.clip, work='clip_i2v_121', picture=True)),
    'clip_t2v_121': Work('clip', partial(video.clip, work='clip_t2v_121', picture=False)),
    'fidelity': Work('fidelity', fidelity.measure),
    'start_warm': Work('start', start.warm, fp8=False),
    'start_cold': Work('start', start.cold, fp8=False),
}
PEERS = {
    'diffusers_forwards': Work('diffusers', diffusers_peer.forwards, fp8=False),
    'diffusers_vae': Work('diffusers', diffusers_peer.vae, fp8=False),
    'diffusers_clip': Work('diffusers', diffusers_peer.clip, fp8=False),
}


def pick(group: str, names: Sequence[str], against: str | None = None) -> dict[str, Work]:
    """Works of a group ('all': every one), or those of `names` among them; raises ValueError.

    `against`: 'diffusers' adds its own works.
    """
    found = {name: work for name, work in WORKS.items() if group in ('all', work.group)}
    found |= PEERS if against == 'diffusers' else {}
    if unknown := [name for name in names if name not in found]:
        raise ValueError(f'works: found {", ".join(unknown)}, wanted any of {", ".join(found)}')
    return {name: work for name, work in found.items() if not names or name in names}


class Suite:
    """Runs works one by one; a work that fails is told of and the others still run."""

    def __init__(self, device: torch.device, references: dict[str, str], runs: int, quick: bool,
                 path: Path | None):
        """`references`: of the checkpoints 'base' and 'policy'; `path`: of the JSON file."""
        self._references, self._runs, self._quick, self._path = references, runs, quick, path
        self._device = device
        self.rows: list[Row] = []
        self.failed: list[dict[str, str]] = []
        self._rates = measure_rates(device)
        self._environment: dict[str, Any] = (
            environment(device) | {'rates': self._rates.values(), 'quick': quick})

    def run(self, works: Mapping[str, Work], precisions: Sequence[str]) -> int:
        """Measure works in each precision; returns the exit code, 1 if one failed."""
        print(HEADER)
        for precision in dict.fromkeys(self._name(precision) for precision in precisions):
            with Engine(self._device) as engine:
                setting = Setting(ModelLibrary(engine), engine, self._references, precision,
                                  QUICK if self._quick else Sizes(), self._runs, self._rates)
                for name, work in works.items():
                    if precision != 'fp8' or work.fp8:
                        self._measure(setting, name, work.measure)
                setting.models.clear()
                setting.free()
        return int(bool(self.failed))

    def _name(self, precision: str) -> str:
        if precision != 'auto':
            return precision
        return 'bf16' if self._device.type == 'cuda' else 'fp32'

    def _measure(self, setting: Setting, name: str, measure: Measure) -> None:
        try:
            rows = measure(setting)
        except Exception as error:      # noqa: B902 - whatever it is, the others still run
            traceback.print_exc()
            rows = []
            self.failed.append({'work': name, 'precision': setting.precision,
                                'error': f'{type(error).__name__}: {error}'})
            print(f'{name} ({setting.precision}) failed: {error}', file=sys.stderr)
        for row in rows:
            print(line(row), flush=True)
        self.rows += rows
        setting.free()
        if self._path is not None:
            save(self._path, self._environment, self.rows, self.failed)
