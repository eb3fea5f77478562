# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Node `world_model`: streams imagined video, frame by frame."""
