# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""From a robot's messages to observations, the same live and from a bag; knows fields, not ROS."""
