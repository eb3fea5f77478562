# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The status `engine` of a process."""
import time

from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.ros.diagnostics import Level
from cosmos3_ros.ros.engine_report import EngineReport


def work(seconds):
    time.sleep(seconds)
    yield


def reported(report):
    status = report.status()
    return status.level, status.to_message().message, {
        pair.key: pair.value for pair in status.to_message().values}


def test_a_long_unit_is_named_once_with_its_task():
    with Engine(max_unit=0.02) as engine:
        report = EngineReport('/cosmos3', engine)
        assert reported(report)[0] == Level.OK
        engine.submit(work(0.05), task='world_model').result(10)
        engine.submit(work(0.05), task='policy').result(10)
        level, message, values = reported(report)
        assert level == Level.WARN and 'world_model' in message and 'policy' not in message
        assert 'more than 20 ms (max_step_ms)' in message
        assert float(values['world_model longest step (ms)']) >= 50
        assert reported(report)[0] == Level.OK


def test_refusals_and_queues_are_reported_by_task():
    with Engine() as engine:
        engine.submit(work(0.05), task='policy', deadline=time.monotonic() + 60).result(10)
        late = engine.submit(work(0.05), task='policy', deadline=time.monotonic() + 0.01)
        assert late.exception(10)
        _, _, values = reported(EngineReport('/cosmos3', engine))
        assert values['policy refused'] == '1' and values['policy queued'] == '0'
