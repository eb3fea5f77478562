# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Time the DROID policy of a checkpoint, stage by stage, and compare bf16 with fp32.

python bench/policy_latency.py random:edge-droid --device cuda --json policy.json
"""
from __future__ import annotations

import argparse
import json
from pathlib import Path
import statistics
import time

import numpy as np
import torch

from cosmos3_ros.droid.observation import Observation
from cosmos3_ros.droid.recipe import request
from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.cosmos3 import Cosmos3
from cosmos3_ros.model.positions import Layout
from cosmos3_ros.tasks.policy import policy


def observation(seed: int = 0) -> Observation:
    """A scene of noise, three cameras of 640x360."""
    random = np.random.default_rng(seed)
    pictures = {name: random.integers(0, 256, (360, 640, 3), np.uint8)
                for name in ('wrist', 'exterior_left', 'exterior_right')}
    return Observation('Pick up the banana and place it in the bowl', pictures,
                       random.normal(size=7), 0.0)


def stages(model: Cosmos3, seed: int) -> list[tuple[str, float]]:
    """Run one chunk; milliseconds of each stage, the device idle at each border."""
    times, start = [], time.perf_counter()

    def mark(name: str) -> None:
        nonlocal start
        if model.device.type == 'cuda':
            torch.cuda.synchronize()
        now = time.perf_counter()
        times.append((name, (now - start) * 1e3))
        start = now

    asked = request(observation(seed), seed)
    mark('compose')
    job = policy(model, asked)
    mark('prepare')
    for step in ('encode', *(f'step {i + 1}' for i in range(asked.recipe.steps))):
        next(job)
        mark(step)
    try:
        next(job)
    except StopIteration:
        mark('read back')
    return times


def fidelity(reference: str, model: Cosmos3) -> dict[str, float]:
    """Relative L2 of one forward's velocities against fp32 of the same weights."""
    exact = load(reference, model.device, torch.float32)
    config, generator = model.config, torch.Generator(model.device).manual_seed(0)
    layout = Layout(9, 33, 40, 15.0, (0,), 33, (0,))
    video = torch.randn(config.latent_channel, 9, 33, 40, generator=generator,
                        device=model.device)
    rows = torch.randn(33, config.action_dim, generator=generator, device=model.device)
    rows[:, 8:] = 0
    ids = model.tokenizer.encode('Pick up the banana and place it in the bowl.')
    time_step = torch.tensor([833], device=model.device)
    outputs = [m.transformer.velocity(m.branch(ids, layout), video, time_step, rows, 8)
               for m in (model, exact)]
    return {name: ((a - b).norm() / b.norm()).item()
            for name, a, b in zip(('video', 'actions'), *outputs, strict=True)}


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('checkpoint')
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--runs', type=int, default=10)
    parser.add_argument('--json', type=Path)
    parser.add_argument('--fidelity', action='store_true')
    parser.add_argument('--profile', action='store_true')
    options = parser.parse_args()
    dtype = torch.bfloat16 if options.device == 'cuda' else torch.float32
    start = time.perf_counter()
    model = load(options.checkpoint, options.device, dtype)
    report = {'checkpoint': options.checkpoint, 'torch': torch.__version__,
              'load_s': time.perf_counter() - start}
    for seed in range(3):
        stages(model, seed)
    runs = [stages(model, seed) for seed in range(options.runs)]
    report['stages_ms'] = {name: statistics.median(run[i][1] for run in runs)
                           for i, (name, _) in enumerate(runs[0])}
    totals = sorted(sum(t for _, t in run) for run in runs)
    report['chunk_ms'] = {'median': statistics.median(totals), 'min': totals[0],
                          'max': totals[-1], 'runs': len(totals)}
    if model.device.type == 'cuda':
        report['device'] = torch.cuda.get_device_name()
        report['memory_gb'] = torch.cuda.max_memory_allocated() / 1e9
    if options.profile:
        with torch.profiler.profile() as profile:
            stages(model, 0)
        key = 'self_cuda_time_total' if options.device == 'cuda' else 'self_cpu_time_total'
        print(profile.key_averages().table(sort_by=key, row_limit=20,
                                           max_name_column_width=60))
    if options.fidelity:
        report['rel_l2_against_fp32'] = fidelity(options.checkpoint, model)
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + '\n')


if __name__ == '__main__':
    main()
