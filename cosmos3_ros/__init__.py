# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Cosmos 3 for ROS 2: written modules here, generated interfaces in msg, srv and action."""

from pkgutil import extend_path

# In an editable install the generated interfaces lie in site-packages, without an __init__.py.
__path__ = extend_path(__path__, __name__)
