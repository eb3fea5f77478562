# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of the reasoner node."""
from __future__ import annotations

from cosmos3_ros.ros.parameters import COMMON, Parameter

REASONER = {
    **COMMON,
    'max_camera_age': Parameter(
        0.25, 'A picture older than this is not used (s).', (0.01, 10.0)),
    'video_memory': Parameter(
        10.0, 'Video of each camera that is remembered, at 2 pictures a second (s).',
        (0.0, 120.0), fixed=True),
    'question_slots': Parameter(
        8, 'Questions answered at a time, others wait; each keeps device memory.', (1, 64),
        fixed=True),
    'question_length': Parameter(
        4096, 'Most tokens of a question with its pictures and its answer.', (256, 262144),
        fixed=True),
    'fp8_decode': Parameter(
        False, 'On CUDA: write tokens with weights rounded to 8 bits, of which a copy is kept: '
        'faster, and answers differ.', fixed=True),
    'max_tokens': Parameter(
        512, 'Most tokens of an answer to a question that names no limit.', (1, 262144)),
}
