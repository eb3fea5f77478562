# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The network: configuration, checkpoint, towers, positions, VAE and tokenizer."""
