# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""ROS side: the nodes, their parameters, message conversion, stream buffers and diagnostics."""
