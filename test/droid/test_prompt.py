# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The prompt to the byte."""
import json
from pathlib import Path

import pytest

from cosmos3_ros.droid.prompt import prompt

REFERENCE = json.loads(
    (Path(__file__).parents[1] / 'data' / 'droid' / 'prompt.json').read_text())

# Written out from the description of the format.
HEAD = (
    '{"cinematography": {"framing": "This video contains concatenated views from multiple camera'
    ' perspectives. The top row is from the wrist-mounted camera. The bottom row contains two'
    ' horizontally concatenated third-person perspective views of the scene from opposite sides,'
    ' with the robot visible."}, "actions": [{"time": "0:00-0:02", "description": "')
TAIL = ('"}], "duration": "2s", "fps": 15.0, "resolution": {"H": 544, "W": 736}, '
        '"aspect_ratio": "4,3"}')


@pytest.mark.parametrize('entry', REFERENCE, ids=lambda entry: entry['instruction'])
def test_prompt_equals_the_reference(entry):
    assert prompt(entry['instruction']) == entry['ai_caption']


@pytest.mark.parametrize('instruction, description', [
    ('stack the cups', 'stack the cups.'),
    ('  push it\n', 'push it.'),
    ('Stop!', 'Stop!'),
    ('Which one?', 'Which one?'),
    ('wait…', r'wait\u2026.'),                  # an ellipsis sign is no ASCII stop
    ('停下。', r'\u505c\u4e0b\u3002.'),
    ('use the 😀 mug', r'use the \ud83d\ude00 mug.'),
    ('a\\b "c"', r'a\\b \"c\".'),
    ('two\nlines', r'two\nlines.'),
])
def test_description_is_a_sentence_in_ascii(instruction, description):
    assert prompt(instruction) == HEAD + description + TAIL


def test_no_instruction_is_the_unconditional_branch():
    assert prompt('') == ''


def test_another_canvas_changes_resolution_and_aspect():
    text = prompt('go', canvas=(480, 832))
    assert text.endswith('"resolution": {"H": 480, "W": 832}, "aspect_ratio": "16,9"}')


def test_a_size_that_is_no_canvas_is_refused():
    with pytest.raises(ValueError, match='640x540'):
        prompt('go', canvas=(540, 640))
