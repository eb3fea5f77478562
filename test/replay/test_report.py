# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of frames and answers: what they show, and that a browser has nothing to complain of."""
import shutil
import subprocess

import numpy as np
import pytest

from cosmos3_ros.replay import frame_scores, questions, report, world
from cosmos3_ros.replay.pictures import jpeg

BROWSER = shutil.which('chromium') or shutil.which('google-chrome')


def imagined(windows):
    """Frames that are 10 levels too bright, of a video that gets brighter by 2 a frame."""
    recorded = [np.full((32, 32, 3), 2 * index, np.uint8) for index in range(len(windows))]
    images = [frame + np.uint8(10) for frame in recorded]
    return {'format': world.FORMAT, 'bag': 'b', 'settings': {
        'checkpoint': 'random:tiny', 'camera': 'wrist', 'led_by': 'prompt', 'seed': 3,
        'prompt': '<lift & turn>', 'recipe': {'steps': 7}},
        'frames': {'stamps': [index * 100_000_000 for index in range(len(windows))],
                   'windows': windows},
        'scores': frame_scores.score(images, recorded, np.array(windows)),
        'timing': {'wall_s': 1.0, 'frames_per_second': 2.5},
        'drawing': {'pairs': [(i, jpeg(images[i]), jpeg(recorded[i]))
                              for i in range(1, len(windows))]}}


def answered():
    return {'format': questions.FORMAT, 'bag': 'b', 'settings': {
        'checkpoint': 'random:tiny', 'device': 'cpu', 'precision': 'auto'},
        'scores': {'exact': 0.5, 'fuzzy': 0.75}, 'questions': [
            {'text': 'What?', 'expected': ['a cup', 'cup'], 'at': 1.5, 'cameras': ['wrist'],
             'answer': '<script>alert(1)</script>', 'exact': False, 'fuzzy': 0.5},
            {'text': 'Who?', 'expected': ['you'], 'at': 0.0, 'cameras': [],
             'answer': 'You.', 'exact': True, 'fuzzy': 1.0}],
        'drawing': {'pictures': [jpeg(np.zeros((18, 32, 3), np.uint8)), '']},
        'timing': {'wall_s': 1.0, 'answer_s': [0.25, 0.75]}}


def written(result, folder):
    report.write(result, folder / 'r.html')
    return (folder / 'r.html').read_text()


def test_pairs_of_frames_stand_side_by_side_and_borders_are_marked(tmp_path):
    page = written(imagined([0, 0, 0, 1, 1]), tmp_path)
    assert page.count('alt="imagined"') == page.count('alt="recorded"') == 4
    assert page.count('class="border"') == 1
    # the shift of 10 levels, and the frozen picture's of 6 at frame 3
    at_border = page[page.index('class="border"'):]
    assert 'frame 3 · 0.30 s · window 2' in at_border
    assert 'PSNR 28.1 dB, frozen 32.6' in at_border
    assert '&lt;lift &amp; turn&gt;' in page and 'src="http' not in page


def test_video_of_one_window_has_no_border(tmp_path):
    page = written(imagined([0, 0, 0]), tmp_path)
    assert 'class="border"' not in page and 'no border between windows' in page


def test_answers_stand_beside_those_expected(tmp_path):
    page = written(answered(), tmp_path)
    assert 'a cup or cup' in page and '&lt;script&gt;' in page and '<script>' not in page
    assert page.count('<td class="good">yes') == page.count('<td class="bad">no') == 1


@pytest.mark.skipif(BROWSER is None, reason='needs Chromium')
@pytest.mark.parametrize('result, title', [
    (imagined([0, 0, 1]), 'Imagined above, recorded below'), (answered(), 'Questions and answers')])
def test_report_opens_in_a_browser_without_an_error(tmp_path, result, title):
    written(result, tmp_path)
    done = subprocess.run(
        [BROWSER, '--headless=new', '--no-sandbox', '--disable-gpu', '--enable-logging=stderr',
         '--dump-dom', (tmp_path / 'r.html').as_uri()], capture_output=True, text=True, timeout=90)
    assert 'CONSOLE' not in done.stderr and title in done.stdout
