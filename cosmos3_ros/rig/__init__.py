# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A simulated DROID cell: Franka arm, parallel gripper, table, objects, three cameras (MuJoCo)."""
import os

# MuJoCo picks its OpenGL binding at import: EGL needs no screen and no GPU.
if 'MUJOCO_GL' not in os.environ and not os.environ.get('DISPLAY'):
    os.environ['MUJOCO_GL'] = 'egl'
