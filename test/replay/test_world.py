# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Scores of imagined frames and of answers, by hand and through the command."""
import json
import re

import numpy as np
import pytest
import yaml

from cosmos3_ros.cli import main
from cosmos3_ros.replay import frame_scores, questions
from cosmos3_ros.replay.setup import Setup

GREY = np.full((32, 32, 3), 100, np.uint8)


def test_psnr_of_a_shift_is_that_of_its_square():
    assert frame_scores.psnr(GREY, GREY + np.uint8(10)) == pytest.approx(20 * np.log10(25.5))
    assert frame_scores.psnr(GREY, GREY) == 99.0


def test_ssim_of_flat_pictures_is_its_luminance_term():
    c1 = 2.55 ** 2
    wanted = (2 * 100 * 110 + c1) / (100 ** 2 + 110 ** 2 + c1)
    assert frame_scores.ssim(GREY, GREY + np.uint8(10)) == pytest.approx(wanted)
    noise = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    assert frame_scores.ssim(noise, noise) == pytest.approx(1.0)
    assert frame_scores.ssim(noise, 255 - noise) < -0.5


def test_seam_is_the_change_at_borders_over_that_elsewhere():
    frames = [np.full((4, 4, 3), value, np.uint8) for value in (0, 2, 4, 14, 16, 18)]
    assert frame_scores.seam(frames, np.array([0, 0, 0, 1, 1, 1])) == pytest.approx(5.0)
    assert frame_scores.seam(frames, np.zeros(6)) is None


def test_drift_is_the_distance_of_mean_colours():
    redder = GREY.copy()
    redder[..., 0] += 30
    assert frame_scores.score([redder], [GREY], np.zeros(1))['drift'] == [pytest.approx(10.0)]


@pytest.mark.parametrize('answer, is_exact, likeness', [
    ('A banana.', True, 1.0), ('a  BANANA', True, 1.0), ('banana', False, 12 / 14),
    ('xyz', False, 0.0)])
def test_answer_is_compared_without_case_and_punctuation(answer, is_exact, likeness):
    assert questions.exact(answer, ('A banana', 'the cup')) is is_exact
    assert questions.fuzzy(answer, ('A banana',)) == pytest.approx(likeness)


@pytest.mark.parametrize('more', [
    ['--checkpoint', 'random:tiny'],
    ['--checkpoint', 'random:tiny-droid', '--actions', '--camera', 'wrist']])
def test_imagined_frames_are_scored_and_repeat(tmp_path, more):
    for name in ('a', 'b'):
        assert main(['replay', 'sample', '--device', 'cpu', '--imagine', '5', '--steps', '1',
                     '--json', str(tmp_path / name), *more]) == 0
    first, second = (json.loads((tmp_path / name).read_text()) for name in ('a', 'b'))
    assert first.pop('timing') and second.pop('timing') and first == second
    assert len(first['scores']['psnr']) == 5 and first['scores']['frozen_psnr'][0] == 99.0
    assert len(first['frames']['stamps']) == 5 and first['frames']['windows'] == [0] * 5


def test_motion_leads_the_video_that_follows_actions(tmp_path):
    common = ['replay', 'sample', '--device', 'cpu', '--checkpoint', 'random:tiny-droid',
              '--imagine', '5', '--steps', '1', '--actions', '--camera', 'wrist', '--json']
    assert main([*common, str(tmp_path / 'a')]) == 0
    # the sample's joints but for two that are swapped
    names = list(Setup().arm_joints)
    names[1], names[3] = names[3], names[1]
    (tmp_path / 'topics.yaml').write_text(yaml.safe_dump({'arm_joints': names}))
    assert main([*common, str(tmp_path / 'b'), '--topics', str(tmp_path / 'topics.yaml')]) == 0
    first, second = (json.loads((tmp_path / name).read_text())['scores'] for name in ('a', 'b'))
    assert first['frozen_psnr'] == second['frozen_psnr'] and first['psnr'] != second['psnr']


@pytest.mark.parametrize('wrong, reason', [
    (['--actions'], 'wanted --imagine'), (['--imagine', '6'], '4 n \\+ 1'),
    (['--imagine', '5', '--camera', 'left'], 'found left'),
    (['--imagine', '5', '--camera', 'composed'], 'found composed'),
    (['--imagine', '5', '--out', 'folder'], 'neither --live nor --out'),
    (['--imagine', '5', '--live'], 'neither --live nor --out')])
def test_what_does_not_fit_is_one_line_and_code_2(capsys, wrong, reason):
    assert main(['replay', 'sample', '--checkpoint', 'random:tiny', *wrong]) == 2
    assert re.search(reason, capsys.readouterr().err)


def test_questions_are_asked_about_their_moment(tmp_path):
    (tmp_path / 'q.yaml').write_text(
        '- {text: "What is on the table?", expected: [a banana, banana], at: 2.0, max_tokens: 4}\n')
    assert main(['replay', 'sample', '--checkpoint', 'random:tiny', '--device', 'cpu',
                 '--questions', str(tmp_path / 'q.yaml'), '--json', str(tmp_path / 'r')]) == 0
    result = json.loads((tmp_path / 'r').read_text())
    assert result['scores']['exact'] == 0.0 and 0 <= result['scores']['fuzzy'] < 1
    assert result['questions'][0]['answer']
