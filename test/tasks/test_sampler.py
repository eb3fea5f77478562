# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""UniPC against diffusers' and against recorded trajectories."""
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cosmos3_ros.tasks.sampler import UniPC, flow_schedule, guide
from diffusers_reference import assert_close, scheduler

RECORDED = json.loads(
    (Path(__file__).parents[1] / 'data' / 'model' / 'sampler.json').read_text())['cases']
STEPS = [1, 2, 3, 4, 10, 20]
SHIFTS = [1.0, 3.0, 5.0, 12.0]


def velocity(x, timestep):
    return torch.sin(3 * x) * (timestep / 1000) + x


def sample(x, steps, shift):
    sigmas, timesteps = flow_schedule(steps, shift)
    solver, states = UniPC(sigmas), [x]
    for timestep in timesteps:
        states.append(solver.step(velocity(states[-1], timestep), states[-1]))
    return torch.stack(states)


@pytest.mark.parametrize('shift', SHIFTS)
@pytest.mark.parametrize('steps', STEPS)
def test_schedule_equals_diffusers(steps, shift):
    sigmas, timesteps = flow_schedule(steps, shift)
    wanted = scheduler(steps, shift)
    assert sigmas.dtype == np.float32 and sigmas[-1] == 0
    assert np.abs(sigmas - wanted.sigmas.numpy()).max() <= 1e-7
    assert timesteps == wanted.timesteps.tolist()


@pytest.mark.parametrize('shift', SHIFTS)
@pytest.mark.parametrize('steps', STEPS)
def test_every_step_equals_diffusers(steps, shift):
    wanted = scheduler(steps, shift)
    ours = UniPC(flow_schedule(steps, shift)[0])
    x = torch.randn(1, 3, 50, generator=torch.Generator().manual_seed(steps))
    for timestep in wanted.timesteps.tolist():
        v = velocity(x, timestep)
        value, x = ours.step(v, x), wanted.step(v, timestep, x, return_dict=False)[0]
        assert value.dtype == torch.float32
        assert_close(value, x, 1e-6)


@pytest.mark.parametrize('case', RECORDED)
def test_trajectory_equals_the_recorded_one(golden, case):
    data, recorded = golden('sampler'), RECORDED[case]
    steps, shift = (float(part.lstrip('Nshift')) for part in case.split('_'))
    sigmas, timesteps = flow_schedule(int(steps), shift)
    assert np.abs(sigmas - data[f'{case}/sigmas']).max() <= 1e-7
    assert timesteps == recorded['timesteps'] == data[f'{case}/timesteps'].tolist()

    trajectory = sample(torch.from_numpy(data['x0']), int(steps), shift).numpy()
    for source in ('cosmos', 'diffusers'):
        assert np.abs(trajectory - data[f'{case}/traj_{source}']).max() <= 2e-6


def test_zero_velocity_leaves_the_state_alone():
    x = torch.randn(100, generator=torch.Generator().manual_seed(0))
    solver = UniPC(flow_schedule(4, 5.0)[0])
    state = x
    for _ in range(4):
        state = solver.step(torch.zeros_like(x), state)
    assert (state - x).abs().max() <= 1e-6


def test_straight_flow_ends_in_the_data():
    data, noise = torch.randn(2, 100, generator=torch.Generator().manual_seed(1))
    sigmas, timesteps = flow_schedule(5, 3.0)
    solver, state = UniPC(sigmas), (1 - sigmas[0]) * data + sigmas[0] * noise
    for _ in timesteps:
        state = solver.step(noise - data, state)
    assert (state - data).abs().max() <= 1e-5


def test_guidance_leads_away_from_the_unconditional_velocity():
    conditional, unconditional = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
    assert guide([conditional, unconditional], 3.0).tolist() == [3.0, -2.0]
    assert guide([conditional], 3.0).tolist() == [1.0, 2.0]
