# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The instruction as the JSON text that the policy was trained on."""
from __future__ import annotations

import json

from ..tasks.canvas import aspect

FRAMING = (
    'This video contains concatenated views from multiple camera perspectives. '
    'The top row is from the wrist-mounted camera. '
    'The bottom row contains two horizontally concatenated third-person perspective views of the '
    'scene from opposite sides, with the robot visible.')


def prompt(instruction: str, canvas: tuple[int, int] = (544, 736)) -> str:
    """JSON text for an instruction; '' for '', which is the unconditional branch.

    `canvas`: (height, width) that the picture is padded to. Raises ValueError if it is none.
    """
    if not instruction:
        return ''
    height, width = canvas
    return json.dumps({
        'cinematography': {'framing': FRAMING},
        'actions': [{'time': '0:00-0:02', 'description': _sentence(instruction)}],
        'duration': '2s',
        'fps': 15.0,
        'resolution': {'H': height, 'W': width},
        'aspect_ratio': aspect(height, width),
    })


def _sentence(instruction: str) -> str:
    text = instruction.strip()
    return text if text.endswith(('.', '!', '?')) else text + '.'
