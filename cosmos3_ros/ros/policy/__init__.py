# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Node `policy`: from cameras and joint states to action chunks and trajectories."""
