# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""An engine, and the time that it sees."""

from types import SimpleNamespace

import pytest

from cosmos3_ros.engine import engine as engine_module
from cosmos3_ros.engine.engine import Engine
from engine_jobs import SOON


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine
        assert engine.close(SOON)


@pytest.fixture
def clock(monkeypatch):
    """Time as the engine sees it, moved by hand."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(engine_module, 'time', SimpleNamespace(monotonic=lambda: clock.now))
    return clock
