# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Node `rig`: the simulated cell behind the topics of a real one."""
