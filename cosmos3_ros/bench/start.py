# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds from the start of a process until every model is loaded and has been used once."""
from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile
import time

import torch

from ..engine.engine import Engine
from ..engine.library import ModelLibrary
from ..model.positions import TEMPORAL_COMPRESSION
from ..tasks.policy import policy as make_chunk
from ..tasks.reason import Reasoner
from .policy import ask_droid
from .reason import ask
from .report import Row
from .setting import QUICK, Setting, Sizes
from .video import stream

CACHES = ('TRITON_CACHE_DIR', 'TORCHINDUCTOR_CACHE_DIR', 'CUDA_CACHE_PATH')
COLD_RUNS, WARM_RUNS = 1, 2     # they are long, and vary little
READY = 'ready'
_CHILD = f'from {__package__}.start import child; child()'
_TREE = Path(__file__).parents[2]


def cold(setting: Setting) -> list[Row]:
    """With empty caches of compiled kernels."""
    runs = []
    for _ in range(COLD_RUNS):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(_ready(setting, folder))
    return [_row(setting, 'start_cold', runs, 'empty')]


def warm(setting: Setting) -> list[Row]:
    """With caches of compiled kernels that an earlier start left."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [_ready(setting, folder) for _ in range(1 + WARM_RUNS)]
    return [_row(setting, 'start_warm', runs[1:], 'filled')]


def _row(setting: Setting, work: str, runs: list[float], caches: str) -> Row:
    return Row(work, f'{" and ".join(setting.references.values())}; a chunk, a window and an '
               f'answer made; caches of compiled kernels {caches}', setting.precision, 'ready_s',
               's', tuple(runs))


def _ready(setting: Setting, caches: str) -> float:
    """Start a process and wait for its word. Raises RuntimeError with what it wrote if it fails."""
    environment = os.environ | {name: str(Path(caches, name)) for name in CACHES}
    environment['PYTHONPATH'] = os.pathsep.join(
        filter(None, [str(_TREE), os.environ.get('PYTHONPATH')]))
    asked = {'references': setting.references, 'precision': setting.precision,
             'device': setting.device.type, 'quick': setting.sizes is QUICK}
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, '-c', _CHILD], env=environment, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        try:
            process.stdin.write(json.dumps(asked))
            process.stdin.close()
            for line in process.stdout:
                if line.strip() == READY:
                    return time.perf_counter() - started
            raise RuntimeError(f'the process that was started ended: {process.stderr.read()}')
        finally:
            process.kill()


def child() -> None:
    """Load and use every model once, and say so: what `_ready` starts."""
    asked = json.load(sys.stdin)
    engine = Engine(torch.device(asked['device']))
    setting = Setting(ModelLibrary(engine), engine, asked['references'], asked['precision'],
                      QUICK if asked['quick'] else Sizes(), runs=1, rates=None)
    _use(setting)
    print(READY, flush=True)
    os._exit(0)


def _use(setting: Setting) -> None:
    """A chunk, a window of a rollout and an answer."""
    setting.run(make_chunk(setting.model('policy'), ask_droid(setting)(0)))
    model, recipe = setting.model('base'), setting.sizes.rollout
    stream(setting, model, recipe, None, TEMPORAL_COMPRESSION * (recipe.window - 1) + 1, seed=0)
    reasoner = Reasoner(model, setting.engine.submit, slots=1, length=setting.sizes.slot)
    ask(reasoner, 1, setting, seed=0)
