# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m cosmos3_ros.cli`, where the command is not installed."""
import sys

from . import main

if __name__ == '__main__':
    sys.exit(main())
