# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for what other threads and processes do."""
import time


def wait_for(condition, timeout=15.0):
    """Poll until the condition holds; return its value, or fail after `timeout` s."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, 'waited in vain'
        time.sleep(0.01)
    return value


def quiet(record, duration=0.5):
    """Return whether a list stops growing, once what was under way has come."""
    time.sleep(0.2)
    count = len(record)
    time.sleep(duration)
    return len(record) == count
