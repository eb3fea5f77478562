# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Two results side by side: pairs, intervals and findings that can be computed by hand."""
import json

import numpy as np
import pytest

from cosmos3_ros.cli import main
from cosmos3_ros.replay import questions, runner, world
from cosmos3_ros.replay.compare import compare, interval, paired
from cosmos3_ros.replay.setup import Setup

ARM = list(Setup().arm_joints)


def policy_result(shift=0.0, stamps=range(8), bag='b'):
    """Chunks whose figures rise from 0 to 7, all `shift` higher; the first has no seam."""
    chunks = []
    for index, stamp in enumerate(stamps):
        value = index + shift
        chunks.append({
            'stamp': stamp, 'joint_error': value, 'hold_error': float(index),
            'by_joint': [value + joint for joint in range(7)], 'gripper_agreement': value,
            'seam_jump': value if index else None, 'disagreement': value if index else None,
            'jerk': value, 'refused': value})
    return {'format': runner.FORMAT, 'bag': bag, 'settings': {'setup': {'arm_joints': ARM}},
            'chunks': chunks, 'timing': {'chunk_latency_s': [one['jerk'] for one in chunks]}}


def world_result(psnr, camera='wrist'):
    count = len(psnr)
    return {'format': world.FORMAT, 'bag': 'b', 'settings': {'camera': camera},
            'frames': {'stamps': list(range(count)), 'windows': [0] * count},
            'scores': {'psnr': psnr, 'ssim': [0.5] * count, 'drift': [2.0] * count}}


def questions_result(right):
    return {'format': questions.FORMAT, 'bag': 'b', 'settings': {}, 'questions': [
        {'text': f'question {index}', 'at': 1.5, 'cameras': ['wrist'], 'exact': one,
         'fuzzy': 1.0 if one else 0.25} for index, one in enumerate(right)]}


@pytest.fixture
def compared(tmp_path):
    """Compares two results; gives the differences by label."""
    def run(first, second):
        for name, result in (('a', first), ('b', second)):
            (tmp_path / name).write_text(json.dumps(result))
        found = compare(tmp_path / 'a', tmp_path / 'b')
        return {one.label: one for one in found.differences}, found
    return run


def test_values_are_paired_by_key_and_missing_ones_left_out():
    first = {1: {'joint_error': 0.5}, 2: {'joint_error': 0.25}, 3: {'joint_error': None}}
    second = {2: {'joint_error': 0.5}, 1: {'joint_error': 0.5}, 4: {'joint_error': 9.0},
              3: {'joint_error': 9.0}}
    keys, one, other = paired(first, second, 'joint_error')
    assert keys == [1, 2] and (other - one).tolist() == [0.0, 0.25]
    low, high = interval(other - one, 1)
    assert low == 0.0 and high == 0.25


def test_interval_of_a_constant_is_that_constant():
    assert interval(np.full(9, 0.5), 2) == (0.5, 0.5)


def test_interval_is_near_that_of_the_normal_distribution():
    # half of 400 values are 0 and half 1: the mean's deviation is 0.5 / 20
    low, high = interval(np.tile([0.0, 1.0], 200), 1)
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.006)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.006)


def test_interval_of_a_series_is_wider_where_neighbours_are_alike():
    # every value stands four times: a run of 8 has 1 + 2 (7/8 3/4 + 6/8 2/4 + 5/8 1/4) times the
    # variance that independent values would give its mean
    series = np.repeat(np.random.default_rng(1).standard_normal(1000), 4)
    narrow, wide = (np.diff(interval(series, block))[0] for block in (1, 8))
    assert wide / narrow == pytest.approx(3.375 ** 0.5, rel=0.1)


def test_runs_that_hold_every_value_leave_no_doubt():
    low, high = interval(np.tile([0.0, 1.0], 6), 2)
    assert (low, high) == (0.5, 0.5)


def test_constant_shift_of_all_figures_is_found_in_each(compared):
    found, whole = compared(policy_result(), policy_result(shift=0.5))
    assert set(found) == {'joint error', 'holding still', 'gripper agrees', 'seam jump',
                          'overlaps differ by', 'jerk', 'refused observations', 'latency',
                          *(f'error {name}' for name in ARM)}
    for label, one in found.items():
        wanted = 0.0 if label == 'holding still' else 0.5
        assert (one.mean, one.low, one.high) == (wanted,) * 3
    assert found['seam jump'].keys == list(range(1, 8)) and len(found['jerk'].keys) == 8
    assert found['error panda_joint3'].first[0] == 2.0
    findings = {label: one.finding for label, one in found.items()}
    assert findings.pop('holding still') == 'no clear difference'
    assert findings.pop('gripper agrees') == 'better' and set(findings.values()) == {'worse'}
    assert 'better in 1 of 15 figures, worse in 13' in whole.summary


def test_difference_within_its_own_spread_is_not_clear(compared):
    wavering = policy_result()
    for index, chunk in enumerate(wavering['chunks']):
        chunk['jerk'] += 1.0 if index in (0, 3, 4, 7) else -1.0
    one = compared(policy_result(), wavering)[0]['jerk']
    assert one.mean == 0.0 and one.low < 0 < one.high and one.finding == 'no clear difference'


def test_few_pairs_decide_nothing(compared):
    found, whole = compared(policy_result(), policy_result(0.5, stamps=range(3, 11)))
    assert found['jerk'].keys == list(range(3, 8)) and found['jerk'].finding == 'too few pairs'
    assert whole.alone == (3, 3)


def test_frames_are_compared_without_the_given_one(compared):
    found, _ = compared(world_result([99.0] + [10.0] * 8), world_result([50.0] + [12.0] * 8))
    assert (found['PSNR'].low, found['PSNR'].high) == (2.0, 2.0)
    assert found['PSNR'].finding == 'better' and len(found['PSNR'].keys) == 8
    assert found['SSIM'].mean == found['colour drift'].mean == 0.0


def test_answers_are_compared_by_question(compared):
    found, _ = compared(questions_result([False] * 4 + [True] * 4), questions_result([True] * 8))
    assert found['exact answers'].mean == 0.5 and found['likeness'].mean == 0.375
    assert 0 <= found['exact answers'].low <= 0.5 <= found['exact answers'].high <= 1


@pytest.mark.parametrize('other, reason', [
    (policy_result(bag='c'), 'of bag b and'), (world_result([1.0, 2.0]), 'of format'),
    (policy_result(stamps=range(100, 104)), 'none of their chunks'),
    ({'format': 'cosmos3-replay/1'}, 'replay again'), ([], 'has format None')])
def test_results_that_do_not_belong_together_are_refused(compared, other, reason):
    with pytest.raises(ValueError, match=reason):
        compared(policy_result(), other)


def test_frames_of_different_cameras_are_refused(compared):
    with pytest.raises(ValueError, match='of camera wrist and .* of composed'):
        compared(world_result([1.0, 2.0]), world_result([1.0, 2.0], 'composed'))


@pytest.mark.parametrize('first, second', [
    (policy_result(), policy_result(0.5)), (world_result([9.0] * 9), world_result([8.0] * 9)),
    (questions_result([True, False]), questions_result([False, True]))],
    ids=['policy', 'world', 'questions'])
def test_report_has_a_row_for_every_figure(tmp_path, capsys, first, second):
    first['settings']['recipe'], second['settings']['recipe'] = (
        {'steps': name, 'shift': 'equal'} for name in ('steps-one', 'steps-two'))
    for name, result in (('a.json', first), ('b.json', second)):
        (tmp_path / name).write_text(json.dumps(result))
    assert main(['replay', '--compare', str(tmp_path / 'a.json'), str(tmp_path / 'b.json'),
                 '--report', str(tmp_path / 'r.html')]) == 0
    said, page = capsys.readouterr().out, (tmp_path / 'r.html').read_text()
    for one in compare(tmp_path / 'a.json', tmp_path / 'b.json').differences:
        assert f'<td>{one.label}<td' in page and f'\n{one.label} ' in said
    assert 'recipe.steps' in page and 'recipe.shift' not in page
    assert 'steps-one' in page and 'steps-two' in page and 'src="http' not in page
