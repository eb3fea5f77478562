# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""From a bag to a verdict: recorded episodes in front of the model, without ROS or a robot.

Recorded time alone decides what is asked; the same bag, settings and checkpoint give the same
figures at any speed.
"""
