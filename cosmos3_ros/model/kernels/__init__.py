# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Fused operations of the network's hot path: Triton on CUDA, plain torch elsewhere.

Every module holds one operation: a function that picks by device, the kernel behind it, and a
twin in plain torch that says what the kernel computes.
"""
