# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""One worker thread owns the device: jobs, futures, deadlines and the models that are loaded."""
