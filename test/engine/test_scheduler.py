# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Order, shares and admission, with a clock that is moved by hand and jobs that only take time."""
import itertools
import random

import pytest

from cosmos3_ros.engine.scheduler import (
    DeadlineExceeded,
    DeadlineUnreachable,
    Entry,
    Scheduler,
)


class Machine:
    """A device that advances what a scheduler says, and notes who ran when and for how long.

    `measured_late`: units behind which a unit's real time is known, as on a GPU.
    """

    def __init__(self, scheduler, measured_late=0, estimate=0.005):
        self.scheduler, self.now = scheduler, 0.0
        self.log, self.time, self.expelled = [], {}, []
        self._late, self._estimate, self._pending = measured_late, estimate, []

    def add(self, task, unit, count=None, deadline=None, name=None):
        """A job of so many units (for ever if none) of `unit` s, or what that function returns."""
        options = {} if deadline is None else {'deadline': deadline}
        units = itertools.repeat(None) if count is None else iter([None] * count)
        length = unit if callable(unit) else lambda: unit
        entry = Entry(task, name or task, job=(units, length), **options)
        self.scheduler.add(entry)
        return entry

    def step(self):
        """Advance one entry; False if none waits."""
        for entry, error in self.scheduler.expel(self.now):
            self.expelled.append((entry.name, error))
            self.scheduler.ended(entry, error)
        entry = self.scheduler.next()
        if entry is None:
            return False
        units, length = entry.job
        try:
            next(units)
        except StopIteration:
            self.scheduler.ended(entry)
            return True
        seconds = length()
        self.scheduler.charge(entry, self._estimate)
        self._pending.append((entry, seconds))
        if len(self._pending) > self._late:
            measured, took = self._pending.pop(0)
            self.scheduler.correct(measured, self._estimate, took)
        self.now += seconds
        self.log.append((entry.name, self.now - seconds, seconds))
        self.time[entry.task] = self.time.get(entry.task, 0.0) + seconds
        self.scheduler.put_back(entry)
        return True

    def run(self, until):
        while self.now < until and self.step():
            pass

    def share(self, task):
        return self.time.get(task, 0.0) / sum(self.time.values())

    def longest_gap(self, name):
        """Longest time between two units of a job."""
        begins = [(begin, begin + took) for who, begin, took in self.log if who == name]
        return max(later[0] - earlier[1] for earlier, later in itertools.pairwise(begins))


def machine(weights=None, **options):
    return Machine(Scheduler(weights), **options)


def names(machine):
    return [name for name, *_ in machine.log]


# Order

def test_earliest_deadline_goes_first_and_equal_ones_in_order_of_arrival():
    m = machine()
    for name, deadline in (('late', 9.0), ('early', 5.0), ('late too', 9.0)):
        m.add('policy', 0.01, 2, deadline, name)
    m.run(1.0)
    assert names(m) == ['early'] * 2 + ['late'] * 2 + ['late too'] * 2


def test_an_earlier_deadline_overtakes_a_job_that_has_begun():
    m = machine()
    m.add('policy', 0.01, 3, 9.0, 'first')
    m.step()
    m.add('policy', 0.01, 1, 5.0, 'second')
    m.run(1.0)
    assert names(m) == ['first', 'second', 'first', 'first']


def test_jobs_of_one_task_take_turns():
    m = machine()
    for name in 'abc':
        m.add('reasoner', 0.01, 2, name=name)
    m.run(1.0)
    assert names(m) == list('abcabc')


# Shares

@pytest.mark.parametrize('late', [0, 2])
@pytest.mark.parametrize('decode, denoise', [(0.002, 0.005), (0.002, 0.040), (0.030, 0.001)])
@pytest.mark.parametrize('weights', [(1, 1), (3, 1), (1, 4)])
def test_weights_share_device_time_whatever_the_length_of_units(weights, decode, denoise, late):
    m = machine({'reasoner': weights[0], 'world_model': weights[1]}, measured_late=late)
    m.add('reasoner', decode)
    m.add('world_model', denoise)
    m.run(20.0)
    assert m.share('reasoner') == pytest.approx(weights[0] / sum(weights), rel=0.05)


def test_the_number_of_jobs_of_a_task_does_not_change_its_share():
    m = machine()
    for _ in range(5):
        m.add('world_model', 0.005)
    m.add('reasoner', 0.005)
    m.run(10.0)
    assert m.share('reasoner') == pytest.approx(0.5, rel=0.05)


def test_units_of_random_length_are_shared_by_what_they_took():
    draw = random.Random(0)
    m = machine({'reasoner': 2.0}, measured_late=2)
    m.add('reasoner', lambda: draw.choice([0.001, 0.002, 0.030]))
    m.add('world_model', lambda: draw.uniform(0.001, 0.02))
    m.run(60.0)
    assert m.share('reasoner') == pytest.approx(2 / 3, rel=0.05)


def test_weights_hold_beside_a_policy_that_asks_twice_a_second():
    m = machine({'reasoner': 1.0, 'world_model': 3.0})
    m.add('reasoner', 0.002)
    m.add('world_model', 0.005)
    for second in range(40):
        m.add('policy', 0.005, 36, second * 0.5 + 0.5, f'chunk {second}')
        m.run(second * 0.5 + 0.5)
    assert m.expelled == []
    others = m.time['reasoner'] + m.time['world_model']
    assert m.time['reasoner'] / others == pytest.approx(0.25, rel=0.05)


def test_a_weight_that_changes_counts_from_then_on():
    m = machine()
    m.add('reasoner', 0.005)
    m.add('world_model', 0.005)
    m.run(5.0)
    m.scheduler.set_weight('reasoner', 4.0)
    before = dict(m.time)
    m.run(15.0)
    assert (m.time['reasoner'] - before['reasoner']) / 10.0 == pytest.approx(0.8, rel=0.05)


@pytest.mark.parametrize('weight', [0.0, -1.0, float('nan'), float('inf')])
def test_a_weight_that_is_none_is_refused_with_its_task(weight):
    with pytest.raises(ValueError, match=r'weight of reasoner: found'):
        Scheduler({'reasoner': weight})


def test_a_task_that_was_idle_has_no_claim_on_the_time_it_slept():
    m = machine()
    m.add('world_model', 0.005)
    m.add('reasoner', 0.005, 1)
    m.run(30.0)
    begun = len(m.log)
    m.add('reasoner', 0.005)
    m.run(31.0)
    assert names(m)[begun:begun + 2] == ['reasoner', 'world_model']
    since = [took for name, _, took in m.log[begun:] if name == 'reasoner']
    assert sum(since) == pytest.approx(0.5, rel=0.05)


def test_a_task_that_comes_and_goes_gets_no_more_than_its_share():
    """Each time it comes back it is level, not ahead."""
    m = machine()
    m.add('world_model', 0.005)
    while m.now < 10.0:
        if not any(entry.task == 'reasoner' for entry in m.scheduler.waiting):
            m.add('reasoner', 0.005, 3)
        m.step()
    assert m.share('reasoner') <= 0.5 * 1.05


def test_one_unit_of_minutes_starves_nobody_for_minutes():
    lengths = iter([120.0])
    m = machine()
    m.add('world_model', lambda: next(lengths, 0.005))
    m.add('reasoner', 0.005)
    m.run(121.0)
    m.log.clear()
    m.run(123.0)
    assert m.longest_gap('world_model') < 0.6


# Starvation and bounds

@pytest.mark.parametrize('urgent, other', [(0.005, 0.005), (0.030, 0.002), (0.002, 0.030)])
def test_others_get_a_fifth_and_wait_half_a_second_at_most_beside_endless_deadlines(urgent, other):
    m = machine()
    m.add('world_model', other)
    m.run(5.0)                          # alone: what it had counts for a moment only
    m.time.clear(), m.log.clear()
    m.add('policy', urgent, deadline=1e6)
    m.run(45.0)
    assert m.share('world_model') == pytest.approx(0.2, abs=0.01)
    assert m.longest_gap('world_model') < 0.5


def test_every_task_goes_on_beside_endless_deadlines():
    m = machine({'reasoner': 1.0, 'world_model': 9.0})
    m.add('policy', 0.005, deadline=1e6)
    for task in ('reasoner', 'world_model', 'load'):
        m.add(task, 0.005)
    m.run(60.0)
    for task in ('reasoner', 'world_model', 'load'):
        assert 0 < m.longest_gap(task) < 1.0


def test_a_chunk_after_a_pause_is_not_interrupted_for_the_others_guarantee():
    """They had the device in the pause: at 2 chunks a second, 180 ms run in one piece."""
    m = machine()
    m.add('world_model', 0.005)
    m.run(0.3)
    begun = len(m.log)
    m.add('policy', 0.005, 36, 0.8)
    m.run(0.48)
    assert names(m)[begun:] == ['policy'] * 36


def test_a_job_with_a_deadline_waits_for_one_unit_of_the_others():
    m = machine()
    m.add('world_model', 0.030)
    m.run(1.0)
    m.add('policy', 0.005, 3, 9.0)
    begun = len(m.log)
    m.run(1.1)
    assert names(m)[begun] == 'policy'


# Admission

def learn(m, seconds=0.1, unit=0.01):
    """Let the scheduler see a job of the policy to its end."""
    m.add('policy', unit, round(seconds / unit), m.now + 1e6)
    m.run(m.now + seconds)
    m.step()
    assert m.scheduler.idle
    m.log.clear(), m.time.clear()


def test_a_job_that_was_never_measured_is_given_a_chance():
    m = machine()
    m.add('policy', 0.01, 10, 0.001)
    assert m.step() and names(m) == ['policy']


def test_a_job_that_cannot_meet_its_deadline_is_refused_with_the_numbers():
    m = machine()
    learn(m)
    m.add('policy', 0.01, 10, m.now + 0.08, 'chunk 7')
    m.step()
    [(name, error)] = m.expelled
    assert (name, m.log) == ('chunk 7', [])
    assert isinstance(error, DeadlineUnreachable)
    assert str(error).startswith('chunk 7: refused, it needs 100 ms of the device after 0 ms')
    assert 'its deadline is in 80 ms' in str(error)


def test_what_is_queued_before_a_job_counts():
    m = machine()
    learn(m)
    for name, deadline in (('a', 0.15), ('b', 0.16), ('c', 0.32)):
        m.add('policy', 0.01, 10, m.now + deadline, name)
    m.run(m.now + 1.0)
    assert [(name, type(error)) for name, error in m.expelled] == [('b', DeadlineUnreachable)]
    assert set(names(m)) == {'a', 'c'}


def test_what_is_queued_on_the_device_counts():
    m = machine()
    learn(m)
    m.add('policy', 0.01, 10, m.now + 0.15)
    assert m.scheduler.expel(m.now, backlog=0.04) == []
    [(_, error)] = m.scheduler.expel(m.now, backlog=0.06)
    assert isinstance(error, DeadlineUnreachable) and 'after 60 ms' in str(error)


def test_a_job_is_dropped_in_its_midst_once_the_rest_cannot_be_done():
    m = machine()
    learn(m)
    entry = m.add('policy', 0.01, 10, m.now + 0.12, 'slow')
    m.step()
    m.now += 0.05                       # the host was busy with something else
    while not m.expelled and m.step():
        pass
    [(_, error)] = m.expelled
    assert len(m.log) == 1 and m.now < entry.deadline
    assert str(error).startswith('slow: dropped')


def test_a_job_that_is_nearly_done_needs_only_the_rest():
    m = machine()
    learn(m)
    m.add('policy', 0.01, 10, m.now + 0.101, 'on time')
    m.run(m.now + 0.1)
    m.step()
    assert m.expelled == []


def test_past_its_deadline_a_job_is_dropped_by_how_much():
    m = machine()
    m.add('policy', 0.01, 10, 1.0, 'chunk')
    m.now = 1.25
    m.step()
    [(_, error)] = m.expelled
    assert type(error) is DeadlineExceeded and 'chunk: dropped, 250 ms past' in str(error)


def ask_often(m, unit, count, deadline, requests):
    """One request after the other; how many ended in time."""
    before = len(m.expelled)
    for _ in range(requests):
        m.add('policy', unit, count, m.now + deadline)
        while m.step():
            pass
        m.now += 0.05
    return requests - (len(m.expelled) - before)


def test_a_slow_first_job_does_not_refuse_all_that_follow():
    m = machine()
    learn(m, seconds=10.0, unit=0.5)
    assert ask_often(m, 0.01, 10, deadline=0.5, requests=60) >= 25


def test_one_slow_job_among_many_changes_nothing():
    m = machine()
    learn(m)
    learn(m, seconds=10.0)
    assert ask_often(m, 0.01, 10, deadline=0.2, requests=10) == 10


def test_jobs_interrupted_in_their_midst_do_not_refuse_all_that_follow():
    """A stale estimate below the deadline, and always a little time lost."""
    m = machine()
    learn(m, seconds=0.6)
    m.add('world_model', 0.03)
    done = 0
    for _ in range(60):
        entry = m.add('policy', 0.01, 10, m.now + 0.61)
        m.run(m.now + 0.61)
        done += not any(e is entry for e in m.scheduler.waiting)
    assert sum(name == 'policy' for name, _ in m.expelled) < 20


def test_a_machine_that_became_too_slow_learns_to_refuse_before_the_work():
    m = machine()
    learn(m)
    assert ask_often(m, 0.08, 10, deadline=0.5, requests=40) == 0
    wasted = m.time['policy']
    assert ask_often(m, 0.08, 10, deadline=0.5, requests=40) == 0
    assert m.time['policy'] - wasted < 0.5 * 40 * 0.5   # a probe now and then


def test_nothing_is_left_of_entries_that_ended():
    m = machine()
    for task, deadline in (('policy', 5.0), ('reasoner', None), ('world_model', None)):
        m.add(task, 0.01, 3, deadline)
    while m.step():
        pass
    assert m.scheduler.idle and m.scheduler.waiting == []
