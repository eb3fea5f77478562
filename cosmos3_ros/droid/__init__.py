# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The DROID embodiment: cameras, prompt, state row and actions as the policy was trained."""
