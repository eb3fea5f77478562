# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A clock that jumps back while requests are being made and delivered. No nodes."""
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from cosmos3_ros.droid.observation import CAMERAS
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.ros.policy.requests import Requests
from cosmos3_ros.ros.policy.settings import POLICY, Settings
from cosmos3_ros.sensing.streams import JointStream, Limits, Streams
from waiting import wait_for

SECOND = 10**9
NAMES = [f'joint{i}' for i in range(8)]


class Cell:
    """Streams that are fed by hand, and requests about them."""

    def __init__(self, engine):
        self.now = 100 * SECOND
        self.accepted = []              # s, stamps of their observations
        self.streams = Streams(dict.fromkeys(CAMERAS, 'topic'),
                               JointStream('joint_states', NAMES[:7], NAMES[7]),
                               Limits(SECOND, SECOND, SECOND))
        values = {name: parameter.default for name, parameter in POLICY.items()} | {
            'arm_joints': NAMES[:7], 'gripper_joint': NAMES[7], 'max_reply_age': 30.0,
            'max_chunk_age': 31.0, 'give_up_age': 32.0}
        self.requests = Requests(
            engine, job, self.streams, Settings(values), lambda: self.now,
            lambda request, targets: self.accepted.append(request.snapshot.stamp / SECOND),
            lambda *_: None)
        self.requests.instruct('pick')

    def see(self):
        """A moment later there are new pictures and joint states."""
        self.now += SECOND // 10
        stamp = SimpleNamespace(sec=self.now // SECOND, nanosec=self.now % SECOND)
        header = SimpleNamespace(stamp=stamp)
        for stream in self.streams.cameras.values():
            self.streams.put(stream, SimpleNamespace(
                header=header, encoding='rgb8', height=4, width=4, step=12, data=bytes(48)),
                self.now)
        self.streams.put(self.streams.joints, SimpleNamespace(
            header=header, name=NAMES, position=[0.0] * 8, velocity=[]), self.now)

    def ask(self, count):
        """See and ask until so many chunks more were accepted."""
        wanted = len(self.accepted) + count

        def enough():
            self.see()
            self.requests.try_start()
            return len(self.accepted) >= wanted

        wait_for(enough)

    def jump(self):
        """Time starts anew, as the node does it."""
        self.now = SECOND
        self.streams.clear()
        self.requests.start_anew()


def job(observation, seed):
    yield
    return SimpleNamespace(actions=np.zeros((32, 8), np.float32))


@pytest.fixture
def cell():
    engine = Engine('cpu')
    result = Cell(engine)
    yield result
    result.requests.pipeline.close()
    engine.close()


class Held:
    """A call that is made, and then held up before it returns."""

    def __init__(self, monkeypatch, owner, name):
        self._call = getattr(owner, name)
        self._made, self._go_on = threading.Event(), threading.Event()
        monkeypatch.setattr(owner, name, self)

    def __call__(self, *arguments):
        result = self._call(*arguments)
        if not self._made.is_set():
            self._made.set()
            self._go_on.wait(10)
        return result

    def wait(self):
        assert self._made.wait(10)

    def go_on(self):
        self._go_on.set()


def test_observation_that_is_taken_while_time_jumps_blocks_no_later_ones(cell, monkeypatch):
    cell.ask(2)
    cell.see()
    taken = Held(monkeypatch, cell.streams, 'snapshot')
    asking = threading.Thread(target=cell.requests.try_start)
    asking.start()
    taken.wait()
    jumping = threading.Thread(target=cell.jump)
    jumping.start()
    jumping.join(0.2)
    taken.go_on()
    for thread in (asking, jumping):
        thread.join()
    cell.ask(2)
    assert cell.accepted[-1] < 50


def test_chunk_that_is_delivered_while_time_jumps_outdates_no_later_ones(cell, monkeypatch):
    cell.ask(2)
    checked = Held(monkeypatch, cell.requests, '_refusal')
    cell.see()
    cell.requests.try_start()
    checked.wait()
    cell.jump()
    checked.go_on()
    cell.ask(3)
    assert cell.accepted[-1] < 50
