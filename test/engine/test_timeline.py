# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""How far the host runs ahead of a device, and what is measured of it; the device is a fake."""
import math
from types import SimpleNamespace

import pytest
import torch

from cosmos3_ros.engine.scheduler import Entry
from cosmos3_ros.engine.timeline import AHEAD_SECONDS, Timeline


class Device:
    """Does work in order, on a clock that only waiting moves."""

    def __init__(self):
        self.now, self.free = 100.0, 100.0
        self.fails = False

    def work(self, seconds):
        self.free = max(self.free, self.now) + seconds

    def event(self):
        device = self

        class Event:
            def record(self):
                self.at = max(device.free, device.now)

            def query(self):
                if device.fails:
                    raise RuntimeError('illegal address')
                return self.at <= device.now

            def synchronize(self):
                if device.fails:
                    raise RuntimeError('illegal address')
                device.now = max(device.now, self.at)

            def elapsed_time(self, other):
                return (other.at - self.at) * 1e3

        return Event()


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def timeline(device):
    return Timeline(torch.device('cpu'), lambda: device.now, device.event)


def run(timeline, device, seconds, task='world_model'):
    """Queue a unit as the engine does."""
    timeline.make_room()
    unit = timeline.start(Entry(task, runnable=device.now))
    device.work(seconds)
    timeline.stop(unit)


def queued(device):
    return device.free - device.now


def test_long_units_never_pile_up(timeline, device):
    for _ in range(50):
        run(timeline, device, 0.030)
        assert queued(device) <= 2 * 0.030 + 1e-9


def test_tiny_units_never_leave_the_device_idle(timeline, device):
    for _ in range(100):
        run(timeline, device, 0.0002)
    for _ in range(200):
        timeline.make_room()
        assert queued(device) >= AHEAD_SECONDS - 3 * 0.0002
        run(timeline, device, 0.0002)
        assert queued(device) <= AHEAD_SECONDS + 3 * 0.0002


def test_two_units_are_queued_whatever_they_take(timeline, device):
    run(timeline, device, 1.0)
    run(timeline, device, 1.0)
    assert device.now == 100.0          # the second did not wait for the first


def test_each_unit_is_given_its_own_device_time(timeline, device):
    lengths = [0.003, 0.040, 0.0005, 0.012]
    for seconds in lengths:
        run(timeline, device, seconds)
    timeline.drain()
    units = timeline.take()
    assert [unit.seconds for unit in units] == pytest.approx(lengths)
    assert [unit.begin for unit in units] == pytest.approx([100.0, 100.003, 100.043, 100.0435])


def test_time_in_which_the_device_was_idle_belongs_to_no_unit(timeline, device):
    run(timeline, device, 0.003)
    device.now += 5.0
    run(timeline, device, 0.004)
    timeline.drain()
    first, second = timeline.take()
    assert (first.seconds, second.seconds) == (pytest.approx(0.003), pytest.approx(0.004))
    assert second.begin == pytest.approx(105.0)


def test_what_was_measured_is_handed_out_once_and_without_waiting(timeline, device):
    run(timeline, device, 0.003)
    run(timeline, device, 0.003)
    device.now += 0.004
    assert len(timeline.take()) == 1 and timeline.take() == []
    assert device.now == pytest.approx(100.004)


def test_one_compilation_does_not_count_as_the_length_of_units(timeline, device):
    run(timeline, device, 60.0)
    timeline.drain()
    run(timeline, device, 0.002)
    assert timeline.backlog <= 0.1


def test_an_error_that_only_the_device_knows_is_told_of_its_unit(timeline, device):
    run(timeline, device, 0.003)
    device.fails = True
    [unit] = timeline.take()
    assert 'illegal address' in str(unit.error)
    timeline.drain()


def test_on_a_cpu_the_time_of_the_call_counts():
    clock = SimpleNamespace(now=7.0)
    timeline = Timeline(torch.device('cpu'), lambda: clock.now)
    unit = timeline.start(Entry('reasoner'))
    clock.now += 0.25
    timeline.stop(unit)
    assert timeline.backlog == 0
    [unit] = timeline.take()
    assert unit.seconds == pytest.approx(0.25) and not math.isnan(unit.end)
