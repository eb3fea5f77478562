# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Measurements of the tasks on this machine: `cosmos3 bench`."""
