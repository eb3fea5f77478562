# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Many bags: results as they come, failures listed, what is done is not done again."""
from importlib.util import find_spec
import json
import shutil

import pytest

from cosmos3_ros.replay import spread
from cosmos3_ros.replay.bag import SAMPLE
from cosmos3_ros.replay.setup import Setup
from cosmos3_ros.replay.spread import Job, run_all


def jobs(*bags):
    return [Job(str(bag), 'random:tiny', Setup(), 64, None, '', 0, 'cpu', 'auto') for bag in bags]


class Fake:
    """Replays nothing; the first try at a bag of the name `shaky` fails."""

    tries = []

    def __init__(self, *_):
        pass

    def replay(self, job):
        self.tries.append(job.bag)
        if job.bag == 'broken' or (job.bag == 'shaky' and self.tries.count('shaky') == 1):
            return None, 'OSError: unreadable'
        return {'bag': job.bag, 'drawing': None}, ''


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(spread, 'Worker', Fake)
    monkeypatch.setattr(spread.report, 'write', lambda result, path: path.write_text(''))
    monkeypatch.setattr(spread.runner, 'verdict', lambda result: result['bag'])
    monkeypatch.setattr(Fake, 'tries', [])


def test_failed_bag_is_tried_twice_and_listed(fake, tmp_path):
    said = []
    failed = run_all(jobs('a', 'shaky', 'broken', 'b'), tmp_path, None, said.append)
    assert failed == [('broken', 'OSError: unreadable')]
    assert Fake.tries == ['a', 'shaky', 'shaky', 'broken', 'broken', 'b']
    assert said == ['a', 'shaky', 'b', 'failed 2 times: broken: OSError: unreadable']


def test_second_run_goes_on_where_the_first_ended(fake, tmp_path):
    run_all(jobs('a', 'b'), tmp_path, None, lambda _: None)
    Fake.tries.clear()
    run_all(jobs('a', 'b', 'c'), tmp_path, None, lambda _: None)
    assert Fake.tries == ['c']
    other = [Job('a', 'random:tiny', Setup(), 8, None, '', 0, 'cpu', 'auto')]
    run_all(other, tmp_path, None, lambda _: None)
    assert Fake.tries == ['c', 'a']             # other settings, another result


@pytest.mark.skipif(find_spec('ray') is None, reason='needs Ray: pip install cosmos3_ros[ray]')
def test_two_ray_workers_give_what_one_process_gives(tmp_path, monkeypatch):
    import ray
    monkeypatch.setattr(ray, 'init', lambda init=ray.init, **options: init(
        num_cpus=2, include_dashboard=False, **options))
    bags = [shutil.copytree(SAMPLE, tmp_path / name) for name in ('one', 'two')]
    failed = run_all(jobs(*bags, tmp_path / 'none'), tmp_path / 'ray', '', lambda _: None)
    assert [bag for bag, _ in failed] == [str(tmp_path / 'none')]
    assert 'no such file' in failed[0][1]
    assert not run_all(jobs(bags[0]), tmp_path / 'here', None, lambda _: None)
    stem = jobs(bags[0])[0].stem
    results = [json.loads((tmp_path / place / f'{stem}.json').read_text())
               for place in ('ray', 'here')]
    assert all(result.pop('timing') for result in results) and results[0] == results[1]
    assert len(list((tmp_path / 'ray').glob('*.json'))) == 2
