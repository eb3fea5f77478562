# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A request that finds no memory fails alone: its session and the other tasks go on."""
import numpy as np
import pytest
import torch

from cosmos3_ros.model.transformer import Transformer
from cosmos3_ros.tasks.dynamics import DynamicsRecipe, DynamicsSession
from cosmos3_ros.tasks.policy import PolicyRecipe, PolicyRequest, policy
from cosmos3_ros.tasks.rollout import RolloutRecipe, RolloutSession
from engine_jobs import SOON

PICTURE = np.full((48, 64, 3), 80, np.uint8)
ROWS = np.full((9, 8), 0.1, np.float32)
TASKS = ('rollout', 'dynamics', 'policy')


def task_of(layout):
    if not layout.rows:
        return 'rollout'
    return 'dynamics' if len(layout.clean_rows) == layout.rows else 'policy'


class Shortage:
    """Lets passes of one task fail, each time after `passes` that succeeded."""

    def __init__(self, velocity):
        self._velocity = velocity
        self.task, self.passes = None, 0

    def __call__(self, network, branches, *arguments):
        velocities = yield from self._velocity(network, branches, *arguments)
        if task_of(branches.layout) == self.task:
            self.passes -= 1
            if self.passes < 0:
                raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 GiB')
        return velocities


@pytest.fixture
def shortage(monkeypatch):
    result = Shortage(Transformer.velocity)
    monkeypatch.setattr(Transformer, 'velocity',
                        lambda network, *arguments: result(network, *arguments))
    return result


class Requests:
    """One request of each task again and again; the videos go on."""

    def __init__(self, engine, model):
        self._engine, self._model = engine, model
        self._rollout = RolloutSession(
            model, 'a cup falls', 'blurry',
            RolloutRecipe(width=32, height=32, steps=2, window=2, history=2), 3, PICTURE)
        self._dynamics = DynamicsSession(model, 'a cup falls', DynamicsRecipe(tier=256, steps=2),
                                         3, PICTURE)

    def run(self):
        """What came of each, by task: frames or actions, or an error."""
        frames = {'rollout': [], 'dynamics': []}
        video = self._rollout
        jobs = {'rollout': video.run(video.window_frames, frames['rollout'].append),
                'dynamics': self._dynamics.run(ROWS, frames['dynamics'].append),
                'policy': policy(self._model, PolicyRequest(
                    PICTURE, 'pick up the cup', np.zeros(8, np.float32), 0,
                    PolicyRecipe(num_frames=9, tier=256)))}
        futures = {task: self._engine.submit(job, task=task) for task, job in jobs.items()}
        results = {task: future.exception(SOON) for task, future in futures.items()}
        for task in [task for task in TASKS if results[task] is None]:
            results[task] = (np.stack([frame.image for frame in frames[task]])
                             if task in frames else futures[task].result().actions)
        return results


@pytest.mark.parametrize('task', TASKS)
@pytest.mark.parametrize('passes', [0, 1])
def test_shortage_in_one_task_fails_its_request_alone(engine, tiny, shortage, task, passes):
    requests = Requests(engine, tiny)
    wanted = [requests.run() for _ in range(2)]     # two windows, or chunks

    requests = Requests(engine, tiny)
    requests.run()
    shortage.task, shortage.passes = task, passes
    found = requests.run()
    error = found.pop(task)
    assert isinstance(error, torch.OutOfMemoryError)
    for words in ('out of memory on cpu', 'GB are free', 'smaller picture', 'close a session'):
        assert words in str(error)
    for other, result in found.items():
        np.testing.assert_array_equal(result, wanted[1][other])

    shortage.task = None
    again = requests.run()[task]                    # the request that failed, made good
    np.testing.assert_array_equal(again, wanted[1][task])
    assert engine.snapshot().tasks[task].failed == 1
