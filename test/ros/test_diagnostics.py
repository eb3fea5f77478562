# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Figures and states that a node reports about itself."""

import math

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
import numpy as np
import pytest

from cosmos3_ros.ros.diagnostics import Level, Percentiles, Status, diagnostic_array
from cosmos3_ros.sensing.rate import Rate


def fed(rate, times):
    for time in times:
        rate.tick(float(time))
    return rate


@pytest.mark.parametrize('hertz', [1.0, 15.0, 30.0])
@pytest.mark.parametrize('asked', [0.0, 0.3, 0.9])
def test_steady_events_read_their_rate_whenever_asked(hertz, asked):
    times = 100.0 + np.arange(int(10 * hertz)) / hertz
    assert fed(Rate(5.0), times).hertz(times[-1] + asked / hertz) == pytest.approx(hertz)


def test_rate_is_right_before_the_window_is_full():
    assert fed(Rate(5.0), [0.0, 0.1, 0.2]).hertz(0.2) == pytest.approx(10.0)


def test_rate_follows_the_newest_window():
    slow, fast = np.arange(0, 20, 0.5), np.arange(20, 26, 0.1)
    assert fed(Rate(5.0), [*slow, *fast]).hertz(fast[-1]) == pytest.approx(10.0)


def test_rate_sinks_to_zero_once_events_stop():
    rate = fed(Rate(5.0), np.arange(0, 10, 0.1))
    readings = [rate.hertz(now) for now in (10.0, 11.0, 13.0, 16.0)]
    assert readings == sorted(readings, reverse=True)
    assert readings[0] == pytest.approx(10.0, rel=0.02) and readings[2] < 6 and readings[3] == 0


@pytest.mark.parametrize('times', [[], [3.0]])
def test_fewer_than_two_events_have_no_rate(times):
    assert fed(Rate(), times).hertz(3.0) == 0.0


def test_events_of_one_instant_have_no_rate():
    assert fed(Rate(), [3.0, 3.0]).hertz(3.0) == 0.0


def test_clock_set_back_starts_the_count_anew():
    rate = fed(Rate(5.0), [*np.arange(100, 110, 0.1), 2.0, 2.5, 3.0])
    assert rate.hertz(3.0) == pytest.approx(2.0)


def test_percentiles_of_a_known_row():
    row = Percentiles(size=101)
    for value in reversed(range(101)):
        row.add(float(value))
    assert (row.p50, row.p99) == (50.0, 99.0)


def test_percentiles_forget_old_values():
    row = Percentiles(size=3)
    for value in (1000.0, 1.0, 2.0, 3.0):
        row.add(value)
    assert row.p50 == 2.0 and row.p99 < 3.0


def test_percentiles_of_nothing_are_nan():
    assert math.isnan(Percentiles().p50) and math.isnan(Percentiles().p99)


def test_status_keeps_two_namespaces_apart():
    names = {Status(f'/{cell}/policy', 'cameras').to_message().name for cell in ('a', 'b')}
    assert names == {'a/policy: cameras', 'b/policy: cameras'}


@pytest.mark.parametrize(('reports', 'level', 'message'), [
    ([], DiagnosticStatus.OK, 'OK'),
    ([(Level.OK, 'active')], DiagnosticStatus.OK, 'active'),
    ([(Level.OK, 'active'), (Level.OK, 'armed')], DiagnosticStatus.OK, 'active; armed'),
    ([(Level.OK, 'active'), (Level.WARN, 'slow')], DiagnosticStatus.WARN, 'slow'),
    ([(Level.WARN, 'slow'), (Level.ERROR, 'wrist is frozen'), (Level.OK, 'active')],
     DiagnosticStatus.ERROR, 'wrist is frozen; slow'),
    ([(Level.ERROR, '')], DiagnosticStatus.ERROR, 'ERROR'),
])
def test_worst_report_counts_and_troubles_are_told(reports, level, message):
    status = Status('/policy', 'inference')
    for report in reports:
        status.report(*report)
    sent = status.to_message()
    assert (sent.level, sent.message) == (level, message)
    assert status.level == level[0]


def test_values_are_text_and_the_last_of_a_key_counts():
    status = Status('/policy', 'inference', hardware_id='arm 7')
    for key, value in [('rate', 1.0), ('p99 [ms]', 12.3456789), ('chunks', 41), ('armed', True),
                       ('seen', None), ('p50 [ms]', math.nan), ('rate', 15.0)]:
        status.value(key, value)
    sent = status.to_message()
    assert {pair.key: pair.value for pair in sent.values} == {
        'rate': '15', 'p99 [ms]': '12.3457', 'chunks': '41', 'armed': 'True', 'seen': 'None',
        'p50 [ms]': 'nan'}
    assert sent.hardware_id == 'arm 7' and len(sent.values) == 6


def test_numpy_figures_are_shown_like_python_ones():
    status = Status('/policy', 'inference')
    status.value('single', np.float32(1) / 3)
    assert status.to_message().values[0].value == '0.333333'


def test_array_carries_the_stamp_and_every_part():
    parts = [Status('/policy', part) for part in ('cameras', 'inference')]
    sent = diagnostic_array(Time(sec=5, nanosec=6), parts)
    assert (sent.header.stamp.sec, sent.header.stamp.nanosec) == (5, 6)
    assert [status.name for status in sent.status] == ['policy: cameras', 'policy: inference']
