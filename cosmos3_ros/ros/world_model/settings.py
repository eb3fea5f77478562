# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of the world-model node."""
from __future__ import annotations

from cosmos3_ros.ros.parameters import COMMON, Parameter

WORLD_MODEL = {
    **COMMON,
    'action_chunk_topic': Parameter(
        'policy/action_chunk', 'Chunks that drive the video with follow_policy.', fixed=True),
    'max_camera_age': Parameter(
        0.25, 'A picture older than this does not start a video (s).', (0.01, 10.0)),
    'session_limit': Parameter(2, 'Sessions open at a time.', (1, 16), fixed=True),
    'session_idle': Parameter(
        300.0, 'A session that was not used for this long is closed (s).', (1.0, 86400.0),
        fixed=True),
}
