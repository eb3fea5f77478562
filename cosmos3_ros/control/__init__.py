# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What stands between a chunk and a moving robot: checks, splicing, the gripper. Pure numpy."""
