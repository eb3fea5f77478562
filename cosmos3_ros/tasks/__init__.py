# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of the model: a task is a generator that yields where it may be interrupted."""
