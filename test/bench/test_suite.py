# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""`cosmos3 bench` from the command line to its file and its table."""
import json
import subprocess
import sys

import pytest

from cosmos3_ros.bench import suite
from cosmos3_ros.bench.report import Row
from cosmos3_ros.bench.table import table
from cosmos3_ros.cli import main

TINY = ['--checkpoint', 'random:tiny', '--policy-checkpoint', 'random:tiny-droid', '--quick',
        '--runs', '1', '--device', 'cpu']
WANTED = {
    'policy_droid': {'latency_ms': 'ms'}, 'policy_832x480': {'latency_ms': 'ms'},
    'policy_640x360': {'latency_ms': 'ms'}, 'policy_two_in_flight': {'actions_per_s': '1/s'},
    'policy_two_in_flight_droid': {'actions_per_s': '1/s'},
    **{f'rollout_{mode}': {'first_frame_s': 's', 'frames_per_s': '1/s'}
       for mode in ('kv', 'chained')},
    'clip_i2v_121': {'wall_s': 's'}, 'clip_t2v_121': {'wall_s': 's'},
    'image_640': {'latency_ms': 'ms'},
    **{f'reason_{streams}': {'ttft_ms': 'ms', 'tok_per_s_stream': '1/s', 'tok_per_s_total': '1/s'}
       for streams in (1, 4, 8, 32)},
    'vae_decode': {'ms_per_latent': 'ms'}, 'start_cold': {'ready_s': 's'}}
ROW = {'work', 'precision', 'metric', 'value', 'unit', 'floor', 'share_of_floor', 'runs', 'shape'}
NO_ROS = """
import sys
sys.modules['rclpy'] = None
from importlib import metadata
find = metadata.version
def without_ours(name):
    if name == 'cosmos3_ros':
        raise metadata.PackageNotFoundError(name)
    return find(name)
metadata.version = without_ours
from cosmos3_ros.bench import diffusers_peer, environment, suite, table
import torch
assert environment.environment(torch.device('cpu'))['cosmos3_ros'] == 'source tree'
assert not [name for name in sys.modules if name.startswith('cosmos3_ros.ros')]
"""


@pytest.fixture(scope='module')
def result(tmp_path_factory):
    file = tmp_path_factory.mktemp('bench') / 'folder' / 'tiny.json'
    works = [name for name in suite.WORKS if name not in ('start_warm', 'fidelity')]
    assert main(['bench', 'all', *TINY, '--works', ','.join(works), '--json', str(file)]) == 0
    return json.loads(file.read_text())


def test_all_works_have_their_rows(result):
    found = {}
    for row in result['rows']:
        assert set(row) == ROW and row['precision'] == 'fp32' and row['value'] > 0
        assert row['shape'] and (row['floor'] is None) == (row['work'] == 'start_cold')
        found.setdefault(row['work'], {})[row['metric']] = row['unit']
    assert found == WANTED and result['failed'] == []


def test_environment_says_what_cannot_be_told(result):
    environment = result['environment']
    assert environment['device'] == 'cpu' and environment['gpu'] is None and environment['quick']
    assert {'driver', 'torch', 'cuda', 'cudnn', 'triton', 'commit', 'cosmos3_ros',
            'date', 'clock_sm_mhz'} <= set(environment)
    assert min(environment['rates'].values()) > 0


def test_table_sets_results_beside_those_of_others(result):
    lines = table([result]).splitlines()
    row = next(line for line in lines if line.startswith('| `reason_8` | ttft_ms'))
    assert [cell.strip() for cell in row.split('|')][4:-1] == ['164', '', '42', '', '']


def test_precisions_are_compared(capsys, tmp_path):
    file = tmp_path / 'fidelity.json'
    assert main(['bench', 'fidelity', *TINY, '--precision', 'bf16', '--json', str(file)]) == 0
    found = {row['metric']: row['value'] for row in json.loads(file.read_text())['rows']}
    assert 0.01 < found['video_rel_l2'] < 5 and 0.01 < found['action_rel_l2'] < 5      # %
    assert 25 < found['psnr_db'] < 60 and 0 < found['joint_difference_rad'] < 0.2


def test_a_work_that_fails_is_named_and_the_others_still_run(monkeypatch, capsys, tmp_path):
    def fail(setting):
        raise RuntimeError('no luck')

    file = tmp_path / 'failed.json'
    monkeypatch.setattr(suite, 'WORKS', {
        'bad': suite.Work('image', fail), 'image_640': suite.WORKS['image_640']})
    assert main(['bench', 'all', *TINY, '--json', str(file)]) == 1
    result = json.loads(file.read_text())
    assert result['failed'] == [{'work': 'bad', 'precision': 'fp32',
                                 'error': 'RuntimeError: no luck'}]
    assert [row['work'] for row in result['rows']] == ['image_640']
    assert 'bad (fp32) failed: no luck' in capsys.readouterr().err


def test_an_unknown_work_is_refused(capsys):
    assert main(['bench', 'vae', *TINY, '--works', 'image_640']) == 2
    assert 'wanted any of vae_decode' in capsys.readouterr().err


@pytest.mark.parametrize('metric, floor, share', [
    ('latency_ms', 50.0, 0.5), ('frames_per_s', 200.0, 0.5), ('wall_s', None, None)])
def test_share_of_floor_is_one_at_best(metric, floor, share):
    assert Row('work', '', 'bf16', metric, '', (90.0, 100.0, 400.0), floor).share_of_floor == share


def test_nothing_here_needs_ros_or_an_installed_package():
    done = subprocess.run([sys.executable, '-c', NO_ROS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
