# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Three tasks together, cancelled, failing and starting anew: nothing is left of them."""
from functools import partial
import gc
import random
import threading
import time

import numpy as np
import psutil
import torch

from cosmos3_ros.bench.policy import observation
from cosmos3_ros.droid.recipe import request
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.engine.sessions import SessionPool
from cosmos3_ros.model.decoder import Decoder
from cosmos3_ros.tasks.policy import policy
from cosmos3_ros.tasks.question import Question
from cosmos3_ros.tasks.reason import Reasoner
from cosmos3_ros.tasks.rollout import RolloutRecipe, RolloutSession

RECIPE = RolloutRecipe(width=32, height=32, steps=2, window=2)
GROWTH = 40e6           # bytes that allocators may keep; a session or a reasoner is larger in all


def failing(job, draw):
    """The job, which runs out of memory at some unit."""
    for _ in range(draw.randrange(4)):
        next(job)
        yield
    job.close()
    raise torch.OutOfMemoryError('injected')


class Robot:
    """Everything that a process keeps, and one thing after the other to do with it."""

    def __init__(self, engine, library):
        self.engine = engine
        self.base = library.acquire('random:tiny', torch.float32).result()
        self.driver = library.acquire('random:tiny-droid', torch.float32).result()
        self.pool = SessionPool(engine.device, 4, 60.0)
        self.reasoner = self.new_reasoner()

    def new_reasoner(self):
        return Reasoner(self.base, partial(self.engine.submit, task='reasoner'), slots=2,
                        length=512)

    def once(self, draw):
        """Start a rollout, questions and a chunk; end each in one of the possible ways."""
        name = str(draw.random())
        session = self.pool.open(name, 1, lambda: RolloutSession(
            self.base, 'a robot', 'blurry', RECIPE, draw.randrange(2**31)))
        video = session.run(session.window_frames, lambda frame: None)
        chunk = policy(self.driver, request(observation(0), 0))
        how = draw.choice(['end', 'cancel', 'fail'])
        if how == 'fail':
            video, chunk = failing(video, draw), failing(chunk, draw)
        picture = np.zeros((64, 64, 3), np.uint8)
        with self.pool.use(name):
            futures = [self.engine.submit(video, task='world_model'),
                       self.engine.submit(chunk, task='policy',
                                          deadline=time.monotonic() + draw.choice([0.2, 30.0]))]
            asked = [self.reasoner.submit(Question('what?', (picture,), max_tokens=8))
                     for _ in range(3)]
            if how == 'cancel':
                time.sleep(draw.random() * 0.2)
                for future in futures:
                    future.cancel()
                self.reasoner.cancel()
            for handle in asked:
                handle.result()
            for future in futures:
                if not future.cancelled():
                    future.exception(30)
            self.engine.settle(10)
        self.pool.close(name)
        if draw.random() < 0.2:
            self.reasoner = self.new_reasoner()


def used():
    gc.collect()
    return psutil.Process().memory_info().rss


def alive(kind):
    gc.collect()
    return sum(type(thing) is kind for thing in gc.get_objects())


def threads():
    """Names of all threads but the one that draws noise, which a process keeps."""
    return sorted(thread.name for thread in threading.enumerate()
                  if not thread.name.startswith('noise'))


def test_nothing_is_left_of_requests_that_ended_were_cancelled_or_failed(request):
    seconds, draw = request.config.getoption('soak'), random.Random(0)
    before_all = threads()
    with Engine() as engine:
        robot = Robot(engine, ModelLibrary(engine))
        end = time.monotonic() + seconds / 3
        while time.monotonic() < end:           # allocators and caches fill up
            robot.once(draw)
        before, end = used(), time.monotonic() + seconds * 2 / 3
        while time.monotonic() < end:
            robot.once(draw)
        assert used() - before < GROWTH
        assert robot.pool.names == [] and alive(RolloutSession) == 0
        assert alive(Decoder) <= 1              # of the reasoner in use
        figures = engine.snapshot().tasks
        assert {task.queued for task in figures.values()} == {0}
        assert figures['policy'].failed and figures['policy'].finished
        assert figures['world_model'].failed and figures['world_model'].cancelled
    assert threads() == before_all
