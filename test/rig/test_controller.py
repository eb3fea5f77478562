# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Trajectories are followed, replaced and refused as joint_trajectory_controller does."""
import numpy as np
import pytest

from cosmos3_ros.rig.controller import Point, TrajectoryError, TrajectoryFollower

NAMES = ('a', 'b')


@pytest.fixture
def follower():
    return TrajectoryFollower(NAMES, [0.0, 1.0])


def line(*times, slope=1.0):
    return [Point(t, [slope * t, 1.0 - slope * t]) for t in times]


def test_it_holds_before_any_trajectory(follower):
    assert follower.sample(123.0).tolist() == [0.0, 1.0]


def test_without_velocities_it_goes_in_straight_lines_and_holds_at_the_end(follower):
    follower.accept(NAMES, [Point(1.0, [2.0, 1.0]), Point(3.0, [2.0, 5.0])], None, now=100.0)
    assert follower.sample(100.5).tolist() == [1.0, 1.0]
    assert follower.sample(102.5).tolist() == [2.0, 4.0]
    assert follower.sample(200.0).tolist() == [2.0, 5.0]


def test_with_velocities_it_follows_the_cubic(follower):
    cubic = np.polynomial.Polynomial([0.0, 0.0, 3.0, -1.0])  # at rest at 0: as the follower is
    times = (0.8, 1.7, 2.5)
    points = [Point(t, [cubic(t), 1.0 - cubic(t)], [cubic.deriv()(t), -cubic.deriv()(t)])
              for t in times]
    follower.accept(NAMES, points, None, now=10.0)
    for t in np.linspace(0, 2.49, 30):
        np.testing.assert_allclose(follower.sample(10 + t), [cubic(t), 1 - cubic(t)], atol=1e-12)


def test_joints_may_come_in_any_order(follower):
    follower.accept(('b', 'a'), [Point(1.0, [7.0, 3.0])], None, now=0.0)
    assert follower.sample(1.0).tolist() == [3.0, 7.0]


def test_a_stamp_shifts_the_trajectory(follower):
    follower.accept(NAMES, line(1.0, 2.0), 50.0, now=49.0)
    assert follower.sample(49.9).tolist() == [0.0, 1.0]
    assert follower.sample(51.5) == pytest.approx([1.5, -0.5])


def test_past_points_are_dropped(follower):
    points = [Point(1.0, [9.0, 9.0]), Point(2.0, [9.0, 9.0]), Point(3.0, [4.0, 1.0])]
    follower.accept(NAMES, points, 100.0, now=102.5)
    assert follower.sample(102.75).tolist() == [2.0, 1.0]  # from the set point, past none of the 9s


def test_a_newer_trajectory_replaces_the_older_from_now_on(follower):
    follower.accept(NAMES, line(1.0, 2.0, 3.0), None, now=0.0)
    follower.accept(NAMES, [Point(0.5, [0.0, 0.0])], None, now=1.5)
    assert follower.sample(1.75) == pytest.approx([0.75, -0.25])
    assert follower.sample(3.0).tolist() == [0.0, 0.0]


def test_the_older_trajectory_runs_until_the_newer_one_starts(follower):
    follower.accept(NAMES, line(1.0, 2.0, 3.0), None, now=0.0)
    follower.accept(NAMES, [Point(1.0, [5.0, 0.0])], 2.5, now=1.5)
    assert follower.sample(2.25) == pytest.approx([2.25, -1.25])
    assert follower.sample(2.5) == pytest.approx([2.5, -1.5])
    assert follower.sample(3.0) == pytest.approx([3.75, -0.75])


def test_velocity_is_continuous_where_trajectories_join(follower):
    def points(first, last):
        return [Point(t - first + 0.1, [t * t, 0.0], [2 * t, 0.0])
                for t in np.arange(first, last, 0.25)]
    follower.accept(NAMES, points(0.0, 2.0), None, now=0.0)
    follower.accept(NAMES, points(1.2, 3.0), None, now=1.05)
    before = (follower.sample(1.05) - follower.sample(1.05 - 1e-6)) / 1e-6
    after = (follower.sample(1.05 + 1e-6) - follower.sample(1.05)) / 1e-6
    np.testing.assert_allclose(after, before, atol=1e-3)


REFUSED = {
    'unknown joint': (('a', 'c'), line(1.0), "unknown \\['c'\\], missing \\['b'\\]"),
    'missing joint': (('a',), [Point(1.0, [0.0])], "missing \\['b'\\]"),
    'joint named twice': (('a', 'b', 'a'), [Point(1.0, [0.0] * 3)], 'once'),
    'no points': (NAMES, [], 'no points'),
    'too few positions': (NAMES, [*line(1.0), Point(2.0, [1.0])], 'point 1 positions: 1 values'),
    'velocities in one point only': (NAMES, [*line(1.0), Point(2.0, [1.0, 1.0], [0.0, 0.0])],
                                     'point 1 velocities: 2 values, wanted 0'),
    'NaN position': (NAMES, [*line(1.0), Point(2.0, [1.0, np.nan])], 'point 1, b: nan'),
    'infinite velocity': (NAMES, [Point(1.0, [1.0, 1.0], [np.inf, 0.0])],
                          'velocities of point 0, a: inf'),
    'equal times': (NAMES, line(1.0, 1.0), 'rising'),
    'falling times': (NAMES, line(2.0, 1.0), 'rising'),
    'negative time': (NAMES, line(-1.0, 1.0), '0 or more'),
}


@pytest.mark.parametrize('names, points, message', REFUSED.values(), ids=REFUSED)
def test_a_bad_trajectory_is_refused_and_the_running_one_goes_on(follower, names, points, message):
    follower.accept(NAMES, line(1.0, 2.0), None, now=0.0)
    with pytest.raises(TrajectoryError, match=message):
        follower.accept(names, points, None, now=0.5)
    assert follower.sample(1.5) == pytest.approx([1.5, -0.5])


def test_a_trajectory_wholly_in_the_past_is_refused(follower):
    with pytest.raises(TrajectoryError, match='past: the last was due 8.000 s ago'):
        follower.accept(NAMES, line(1.0, 2.0), 90.0, now=100.0)
    assert follower.sample(100.0).tolist() == [0.0, 1.0]
