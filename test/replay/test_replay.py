# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The sample bag in front of policies whose scores are known, and the command."""
import json
import shutil
import subprocess

import numpy as np
import pytest

from cosmos3_ros.cli import main
from cosmos3_ros.droid.recipe import STEP
from cosmos3_ros.replay import report, runner
from cosmos3_ros.replay.bag import Bag
from cosmos3_ros.replay.motion import Motion
from cosmos3_ros.replay.setup import Setup
from cosmos3_ros.replay.timeline import EveryRows, Taken, WithLatency, walk


def recorded_policy(bag, change=lambda rows: rows):
    """Returns the recorded motion that follows each observation, changed."""
    motion = Motion(bag, Setup())
    moments = (moment for moment in walk(bag, Setup(), EveryRows(8)) if isinstance(moment, Taken))

    def ask(observation, seed):
        stamp = next(moments).snapshot.stamp
        times = stamp + round(STEP * 1e9) * np.arange(32)
        targets = change(motion.at(np.minimum(times, bag.end)))
        targets[:, 7] = 1 - targets[:, 7]           # the network counts the other way
        return targets.astype(np.float32)
    return ask


def replayed(change=lambda rows: rows):
    with Bag('sample') as bag:
        return runner.replay(bag, Setup(), EveryRows(8), '', 5, recorded_policy(bag, change))


def test_perfect_policy_has_no_error():
    result = replayed()
    figures = result['scores']
    assert figures['joint_error']['max'] < 1e-6 < figures['hold_error']['mean']
    assert figures['gripper_agreement'] == 1.0
    assert figures['gripper_switches'] == {'delays_s': [0.0, 0.0], 'missed': 0, 'spurious': 0}
    assert not result['refused']['counts']
    assert [chunk['seed'] for chunk in result['chunks']] == list(range(5, 5 + 12))
    assert 'better than holding still' in runner.verdict(result)


def test_shift_of_all_joints_is_the_error_of_each():
    def shift(rows):
        return rows + np.array([0.1] * 7 + [0.0])
    figures = replayed(shift)['scores']
    assert figures['joint_error']['mean'] == pytest.approx(0.1, abs=1e-6)
    assert figures['by_step']['panda_joint3']['p95'][0] == pytest.approx(0.1, abs=1e-6)


def test_delay_is_the_way_that_the_arm_goes_in_it():
    def delay(rows):
        return np.concatenate([rows[:1], rows[:1], rows[:-2]])
    errors = replayed(delay)['drawing']['errors']
    # joint 1 goes 0.25 rad in the first 2 s
    assert errors[0, 2:28, 0] == pytest.approx(0.25 / 2 * 2 * STEP, abs=1e-3)


def test_swapped_joints_both_have_the_distance_between_them():
    def swap(rows):
        return rows[:, [1, 0, 2, 3, 4, 5, 6, 7]]
    drawing = replayed(swap)['drawing']
    times = drawing['stamps'][0] + round(STEP * 1e9) * np.arange(32)
    with Bag('sample') as bag:
        recorded = Motion(bag, Setup()).at(times)
    distance = np.abs(recorded[:, 0] - recorded[:, 1])
    assert distance.min() > 0.2
    for column in (0, 1):
        assert drawing['errors'][0, :, column] == pytest.approx(distance, abs=1e-6)
    assert np.nanmax(drawing['errors'][..., 2:]) < 1e-6


def test_refused_observations_count_from_their_chunk_on():
    with Frozen('sample') as bag:
        result = runner.replay(bag, Setup(), EveryRows(8), '', 0, lambda *_: np.zeros((32, 8)))
    counts = [chunk['refused'] for chunk in result['chunks']]
    # all of them come after the last chunk
    assert not any(counts[:-1]) and counts[-1] == sum(result['refused']['counts'].values()) > 10


def test_inverted_gripper_never_agrees_but_where_it_moves():
    def invert(rows):
        rows[:, 7] = 1 - rows[:, 7]
        return rows
    figures = replayed(invert)['scores']
    assert figures['joint_error']['max'] < 1e-6
    # both decide alike only inside the hysteresis: 0.6 s of closing and opening, three rows each
    assert figures['gripper_agreement'] < 0.1
    assert figures['gripper_switches']['missed'] == 2


def test_observations_come_every_so_many_rows():
    with Bag('sample') as bag:
        stamps = [one.snapshot.stamp for one in walk(bag, Setup(), EveryRows(8))]
        live = list(walk(bag, Setup(), WithLatency(0.31, 1)))
    assert np.diff(stamps) == pytest.approx(8 * STEP * 1e9, abs=2)
    # the newest picture waits when a place becomes free
    assert set(np.diff([one.taken for one in live])) == {310_000_000}
    assert all(one.ready == one.taken + 310_000_000 for one in live)


class Frozen(Bag):
    """The sample, whose left camera stops after 3 s."""

    def messages(self, topics):
        for topic, time, message in super().messages(topics):
            if 'left' not in topic or time < self.start + 3_000_000_000:
                yield topic, time, message


def test_camera_that_stops_is_refused_and_named():
    with Frozen('sample') as bag:
        found = list(walk(bag, Setup(), EveryRows(1)))
        taken = [one for one in found if isinstance(one, Taken)]
        refused = [one.refusal for one in found if not isinstance(one, Taken)]
        # 3 s, then for as long as the pictures lie within the skew of 50 ms
        assert taken[-1].taken < bag.start + 3_050_000_000
    assert {one.stream for one in refused} == {'exterior_left'}
    assert {one.code for one in refused} == {'skew', 'age'} and len(refused) > 40


@pytest.fixture(scope='module')
def command(tmp_path_factory):
    """Two runs of the command on the sample."""
    folder = tmp_path_factory.mktemp('replay')
    for name in ('a', 'b'):
        assert main(['replay', 'sample', '--checkpoint', 'random:tiny', '--device', 'cpu',
                     '--execute', '32', '--json', str(folder / f'{name}.json'),
                     '--report', str(folder / f'{name}.html')]) == 0
    return folder


def test_two_runs_agree_but_for_times(command):
    results = [json.loads((command / f'{name}.json').read_text()) for name in ('a', 'b')]
    for result in results:
        assert result.pop('timing')['actions_per_second'] > 0
    assert json.dumps(results[0]) == json.dumps(results[1])


def test_same_results_do_not_differ(command, capsys):
    assert main(['replay', '--compare', str(command / 'a.json'), str(command / 'b.json')]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    same = [line for line in lines if not line.startswith('latency')]
    assert {'joint error', 'gripper agrees', 'seam jump', 'jerk', 'refused observations'} <= {
        line[:20].rstrip() for line in same}
    assert all('+0 [+0, +0]' in line for line in same)


def test_report_needs_no_network(command):
    page = (command / 'a.html').read_text()
    assert 'src="http' not in page and 'href="http' not in page
    assert page.count('data:image/jpeg;base64,') >= 3


@pytest.mark.skipif(not (shutil.which('chromium') or shutil.which('google-chrome')),
                    reason='needs Chromium')
def test_report_opens_in_a_browser_without_an_error(command):
    browser = shutil.which('chromium') or shutil.which('google-chrome')
    done = subprocess.run(
        [browser, '--headless=new', '--no-sandbox', '--disable-gpu', '--enable-logging=stderr',
         '--dump-dom', (command / 'a.html').as_uri()], capture_output=True, text=True, timeout=90)
    assert 'CONSOLE' not in done.stderr and 'Joints: predicted' in done.stdout


def test_wrong_bag_is_one_line_and_code_2(capsys):
    assert main(['replay', '/nowhere', '--checkpoint', 'random:tiny']) == 2
    assert 'no such file' in capsys.readouterr().err


def test_report_of_a_recording_without_gripper_motion_is_written(tmp_path):
    def still(rows):
        rows[:, 7] = 0
        return rows
    report.write(replayed(still) | {}, tmp_path / 'r.html')
    assert 'switches missed' in (tmp_path / 'r.html').read_text()
