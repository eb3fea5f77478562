# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the process says of its engine once a second."""
from __future__ import annotations

from typing import TYPE_CHECKING

from cosmos3_ros.ros.diagnostics import Level, Status

if TYPE_CHECKING:
    from cosmos3_ros.engine.engine import Engine
    from cosmos3_ros.engine.figures import Snapshot


class EngineReport:
    """Builds the status `engine`; shares and warnings are of the time since the last one."""

    def __init__(self, node: str, engine: Engine):
        self._node, self._engine = node, engine
        self._before: Snapshot | None = None

    def status(self) -> Status:
        """Figures by task; WARN names tasks whose units held the device for too long."""
        status, now, before = Status(self._node, 'engine'), self._engine.snapshot(), self._before
        self._before = now
        limit = self._engine.max_unit * 1e3
        for task, part in now.since(before).items():
            figures = now.tasks[task]
            known = before.tasks.get(task) if before else None
            # a chunk's own units and those of a start delay no chunk of a robot that moves
            if task not in ('policy', 'load') and figures.too_long > (
                    known.too_long if known else 0):
                status.report(Level.WARN, f'{task}: a unit held the device for more than '
                              f'{limit:.0f} ms (max_step_ms), the longest so far for '
                              f'{figures.longest_unit * 1e3:.0f} ms')
            for name, value in (
                    ('device time (%)', 100 * part), ('wait p50 (ms)', figures.wait_p50 * 1e3),
                    ('wait p99 (ms)', figures.wait_p99 * 1e3), ('queued', figures.queued),
                    ('longest step (ms)', figures.longest_unit * 1e3),
                    ('missed', figures.missed), ('refused', figures.refused),
                    ('failed', figures.failed)):
                status.value(f'{task} {name}', value)
        return status
