# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks become trajectories that join up; late, old and wrong ones are refused."""
import numpy as np
import pytest

from cosmos3_ros.control.gate import FRANKA, GateError
from cosmos3_ros.control.trajectory import SpliceError, TrajectorySplicer

STEP = 1 / 15
HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
EPOCH = 1.7e9                                    # clocks count from 1970


class Controller:
    """What a joint_trajectory_controller does with positions and velocities, on its own terms.

    Cubic polynomials from its present state to the first point and from point to point.
    """

    def __init__(self, position):
        self.knots = [(-np.inf, position, np.zeros(7)), (0.0, position, np.zeros(7))]

    def take(self, now, stamp, trajectory):
        position, velocity = self.state(now)
        self.knots = [(now, position, velocity)] + [
            (stamp + time, p, v) for time, p, v in zip(
                trajectory.times, trajectory.positions, trajectory.velocities)]

    def state(self, time):
        for (t0, p0, v0), (t1, p1, v1) in zip(self.knots, self.knots[1:]):
            if t0 <= time < t1:
                span, x = t1 - t0, time - t0
                if not np.isfinite(span):
                    return p0, v0
                c2 = (3 * (p1 - p0) / span - 2 * v0 - v1) / span
                c3 = (2 * (p0 - p1) / span + v0 + v1) / span ** 2
                return p0 + x * (v0 + x * (c2 + x * c3)), v0 + x * (2 * c2 + x * 3 * c3)
        return self.knots[-1][1], np.zeros(7)


def ramp(start, speed=0.5, rows=32, step=STEP):
    """Rows of a motion at `speed` rad/s that is at home at time 0 and observed at `start`."""
    return HOME + speed * (start + step * np.arange(rows))[:, None] * np.ones(7)


def moving(stamp=10.0, latency=0.1):
    """A splicer that started the ramp from rest; it is at home `latency` + 0.05 s after `stamp`."""
    splicer = TrajectorySplicer(FRANKA)
    splicer.splice(stamp, STEP, ramp(0), stamp + latency, HOME)
    return splicer


@pytest.mark.parametrize('latency', [0.0, 0.2, 0.45])
@pytest.mark.parametrize('origin', [0.0, EPOCH])
def test_the_first_chunk_from_rest_starts_at_row_zero(latency, origin):
    splicer = TrajectorySplicer(FRANKA, lead=0.05)
    rows, now = ramp(0), origin + latency
    assert splicer.first_row(origin, STEP, now) == 0
    splice = splicer.splice(origin, STEP, rows, now, HOME)
    assert splice.rows.start == 0
    assert np.allclose(splice.trajectory.positions[0], rows[0])
    assert splice.trajectory.times[0] == pytest.approx(latency + 0.05, abs=1e-6)
    assert np.allclose(np.diff(splice.trajectory.times), STEP)


@pytest.mark.parametrize('latency, first', [(0.0, 1), (0.1, 3), (0.2, 4), (0.4, 7)])
def test_a_reply_in_motion_skips_the_rows_that_are_past(latency, first):
    """Rows are due every 66.7 ms; the first due 50 ms or more after the reply is used."""
    splicer = moving(stamp=10.0)
    stamp = 10.4
    rows = ramp(0.3)
    now = stamp + latency
    assert splicer.first_row(stamp, STEP, now) == first
    splice = splicer.splice(stamp, STEP, rows, now, HOME)
    assert splice.rows.start == first
    assert np.allclose(splice.trajectory.times, STEP * np.array(splice.rows))
    assert np.allclose(splice.trajectory.positions, rows[first:splice.rows.stop])


def test_standing_still_after_the_observation_does_not_count():
    """Two requests in flight from rest: the second continues the first, it does not run ahead."""
    splicer = TrajectorySplicer(FRANKA, lead=0.05)
    splicer.splice(10.0, STEP, ramp(0), 10.3, HOME)             # motion starts at 10.35
    splice = splicer.splice(10.15, STEP, ramp(0), 10.45, HOME)  # seen at rest, too
    assert splice.seam.position.value < 1e-6
    assert splice.rows.start == 3                               # due at 10.55, not at 10.35
    assert 10.15 + splice.trajectory.times[0] == pytest.approx(10.55)


def test_rows_due_after_the_chunk_age_are_cut():
    splicer = moving(stamp=10.0)
    splice = splicer.splice(10.4, STEP, ramp(0.3), 10.5, HOME)
    assert splice.rows.stop == 28                               # row 27 is due at 1.8 s
    assert splice.trajectory.times[-1] == pytest.approx(1.8)
    first = TrajectorySplicer(FRANKA).splice(10.0, STEP, ramp(0), 10.3, HOME)
    assert 1.8 - STEP < first.trajectory.times[-1] <= 1.8


def test_the_last_point_stands_still():
    splicer = TrajectorySplicer(FRANKA)
    trajectory = splicer.splice(10.0, STEP, ramp(0), 10.1, HOME).trajectory
    assert (trajectory.velocities[-1] == 0).all()
    assert (trajectory.velocities[-2] != 0).all()


def test_a_steady_motion_goes_through_the_seam_at_its_speed():
    splicer = moving(stamp=10.0, latency=0.1)                # home at 10.15, 0.5 rad/s
    splice = splicer.splice(10.5, STEP, ramp(0.35), 10.73, HOME)
    assert np.allclose(splice.trajectory.velocities[:-1], 0.5)
    assert splice.seam.position.value < 1e-9
    assert splice.seam.velocity.value < 1e-9
    assert splice.seam.acceleration.value < 1e-6
    assert splice.seam.limited.value == 0


def test_the_seam_velocity_uses_the_old_plan_before_it():
    """Joint 2 of the new chunk is 0.02 rad ahead: (p2 - old) / 2 steps = 0.5 + 0.02 * 15 / 2."""
    splicer = moving(stamp=10.0, latency=0.1)
    rows = ramp(0.35)
    rows[:, 1] += 0.02
    splice = splicer.splice(10.5, STEP, rows, 10.6, HOME)
    assert splice.trajectory.velocities[0, 1] == pytest.approx(0.65)
    assert splice.trajectory.velocities[0, 0] == pytest.approx(0.5)
    assert splice.seam.position == ('panda_joint2', pytest.approx(0.02))
    assert splice.seam.velocity == ('panda_joint2', pytest.approx(0.15))


def test_a_jump_is_followed_no_faster_than_the_limit_allows():
    splicer = moving(stamp=10.0)
    rows = ramp(0.3)
    rows[:, 4] += 1.0
    splice = splicer.splice(10.4, STEP, rows, 10.5, HOME)
    assert splice.seam.position == ('panda_joint5', pytest.approx(1.0, abs=0.05))
    assert splice.seam.limited.joint == 'panda_joint5'
    assert splice.seam.limited.value > 0.5
    assert np.allclose(splice.trajectory.positions[-1], rows[27])   # and it arrives


@pytest.mark.parametrize('seed', range(12))
def test_random_chunks_keep_every_limit_in_the_controller(seed):
    random = np.random.RandomState(seed)
    splicer, scale = TrajectorySplicer(FRANKA), 10.0 ** random.uniform(-2, 1)
    present = random.uniform(FRANKA.lower, FRANKA.upper)
    controller, now = Controller(present), EPOCH
    stamp = now - 0.3
    for _ in range(8):
        stamp = max(stamp + 0.01, now - random.uniform(0, 0.4))
        rows = present + scale * random.standard_normal((32, 7))
        splice = splicer.splice(stamp, STEP, rows, now, present)
        trajectory = splice.trajectory
        assert np.isfinite(trajectory.positions).all() and np.isfinite(trajectory.velocities).all()
        assert trajectory.times[0] > now - stamp
        assert (np.diff(trajectory.times) > 0).all()
        assert (np.abs(trajectory.velocities) <= FRANKA.max_velocity).all()
        before = controller.state(now)
        controller.take(now, stamp, trajectory)
        after = controller.state(now + 1e-6)
        assert np.allclose(before, after, atol=1e-3)             # no jump in position or velocity
        until = now + random.choice([0.03, 0.2, 0.5, 2.5])
        for time in np.arange(now, until, 0.007):
            velocity = controller.state(time)[1]
            assert (np.abs(velocity) <= FRANKA.max_velocity * (1 + 1e-4)).all()
        now = until


def test_smooth_motion_stays_smooth_over_many_chunks():
    """A sine of 0.5 Hz, observed every 0.2 s, replies 0.15 s later; the arm keeps to the sine."""
    def wave(times):
        return HOME + 0.2 * np.sin(np.pi * np.asarray(times))[..., None] * np.ones(7)

    splicer, controller = TrajectorySplicer(FRANKA), Controller(HOME)
    delay = 0.2                                    # from the first observation to motion
    for index in range(12):
        stamp = EPOCH + 0.2 * index
        seen = max(0.0, 0.2 * index - delay)       # where on the sine it was observed
        splice = splicer.splice(stamp, STEP, wave(seen + STEP * np.arange(32)), stamp + 0.15, HOME)
        controller.take(stamp + 0.15, stamp, splice.trajectory)
        assert splice.seam.position.value < 0.002
        for now in stamp + 0.15 + np.arange(0.1, 0.2, 0.01):
            position, velocity = controller.state(now)
            phase = now - EPOCH - delay
            if phase > 2 * STEP:
                assert np.allclose(position, wave(phase), atol=0.002)
                assert np.allclose(velocity, 0.2 * np.pi * np.cos(np.pi * phase), atol=0.04)


def test_after_a_stall_one_command_for_now():
    splicer = moving(stamp=10.0)
    stalled = 20.0                                               # the arm has held since 11.8
    splice = splicer.splice(stalled - 0.2, STEP, ramp(0.9), stalled, HOME)
    assert splice.rows.start == 0
    assert stalled - 0.2 + splice.trajectory.times[0] == pytest.approx(stalled + 0.05)


def test_only_the_standstill_after_the_observation_does_not_count():
    """The plan ends at 11.75; seen at 11.7 in motion, the arm moves on at 12.05, 0.3 s later."""
    splicer = moving(stamp=10.0)                    # row 24, at 11.75, is the last before 11.8
    first = splicer.splice(11.7, STEP, ramp(1.55), 12.0, HOME)
    assert first.rows.start == 1                    # due at 12.0 + 1 / 15; row 0 was due at 12.0
    assert 11.7 + first.trajectory.times[0] == pytest.approx(12.0 + STEP)
    second = splicer.splice(11.72, STEP, ramp(1.57), 12.1, HOME)
    assert 11.72 + second.trajectory.times[0] == pytest.approx(12.02 + 2 * STEP)


def test_a_small_step_back_at_the_seam_does_not_stop_the_arm():
    splicer = moving(stamp=10.0, latency=0.1)
    splice = splicer.splice(10.5, STEP, ramp(0.35) - 0.045, 10.63, HOME)
    assert splice.trajectory.positions[0, 0] < ramp(0.48)[0, 0]         # behind where it is now
    assert splice.trajectory.velocities[0, 0] == pytest.approx(0.5 - 0.045 * 15 / 2)


def test_a_late_reply_is_refused_and_the_plan_stays():
    splicer = moving(stamp=10.0)
    with pytest.raises(SpliceError, match='reply is 510 ms old, wanted at most 500'):
        splicer.splice(10.2, STEP, ramp(0.1), 10.71, HOME)
    assert splicer.splice(10.4, STEP, ramp(0.25), 10.75, HOME).seam.position.value < 1e-6


def test_a_reply_out_of_order_is_refused():
    splicer = moving(stamp=10.0)
    splicer.splice(10.2, STEP, ramp(0.1), 10.4, HOME)
    for stamp in (10.2, 10.1):
        with pytest.raises(SpliceError, match='not newer than the plan'):
            splicer.splice(stamp, STEP, ramp(0.1), 10.45, HOME)


def test_an_observation_from_the_future_is_refused():
    with pytest.raises(SpliceError, match='300 ms in the future.*one clock'):
        TrajectorySplicer(FRANKA).splice(10.3, STEP, ramp(0), 10.0, HOME)


def test_a_chunk_whose_rows_are_all_past_is_refused():
    splicer = moving(stamp=10.0)
    with pytest.raises(SpliceError, match='none of 4 rows is due'):
        splicer.splice(10.2, STEP, ramp(0.1, rows=4), 10.6, HOME)


def test_a_value_that_is_not_finite_is_refused_and_the_plan_stays():
    splicer = moving(stamp=10.0)
    rows = ramp(0.1)
    rows[3, 6] = np.nan
    with pytest.raises(GateError, match='row 3, column 6 .panda_joint7.'):
        splicer.splice(10.2, STEP, rows, 10.4, HOME)
    assert splicer.splice(10.25, STEP, ramp(0.1), 10.4, HOME).seam.position.value < 1e-6


def test_a_chunk_of_one_row_is_a_stop_there():
    splice = TrajectorySplicer(FRANKA).splice(10.0, STEP, ramp(0, rows=1), 10.1, HOME)
    assert splice.trajectory.velocities.tolist() == [[0.0] * 7]


def test_hold_stops_within_its_time_at_constant_deceleration():
    splicer = moving()
    velocity = np.linspace(-1, 1, 7)
    trajectory = splicer.hold(HOME, velocity)
    controller = Controller(HOME)
    controller.knots = [(0.0, HOME, velocity), (trajectory.times[0], trajectory.positions[0],
                                                trajectory.velocities[0])]
    assert trajectory.times.tolist() == [0.25]
    assert np.allclose(controller.state(0.1)[1], velocity * 0.6)
    assert np.allclose(controller.state(0.2)[1], velocity * 0.2)
    assert (controller.state(0.25)[1] == 0).all()


def test_hold_does_not_coast_past_a_position_limit():
    position = HOME.copy()
    position[3] = -0.0698 - 0.01
    trajectory = TrajectorySplicer(FRANKA).hold(position, np.full(7, 1.0))
    assert trajectory.positions[0, 3] == -0.0698


@pytest.mark.parametrize('stop', [lambda s: s.hold(HOME, np.zeros(7)), lambda s: s.reset()])
def test_after_a_hold_or_reset_motion_starts_from_rest(stop):
    splicer = moving(stamp=10.0)
    stop(splicer)
    present = HOME + 0.03
    splice = splicer.splice(10.2, STEP, ramp(0.1), 10.4, present)
    assert splice.rows.start == 0
    assert splice.seam.position.value == pytest.approx(0.02)     # ramp(0.1) starts at home + 0.05


def test_after_a_reset_a_new_observation_can_be_demanded():
    splicer = moving(stamp=10.0)
    splicer.reset(since=10.3)
    with pytest.raises(SpliceError, match='100 ms older than the last reset'):
        splicer.splice(10.2, STEP, ramp(0), 10.4, HOME)
    splicer.hold(HOME, np.zeros(7))                              # does not lift the demand
    with pytest.raises(SpliceError, match='older than the last reset'):
        splicer.splice(10.2, STEP, ramp(0), 10.4, HOME)
    splicer.splice(10.35, STEP, ramp(0), 10.4, HOME)


def test_time_may_start_again_after_a_reset():
    splicer = moving(stamp=1000.0)
    splicer.reset()
    assert splicer.splice(1.0, STEP, ramp(0), 1.2, HOME).rows.start == 0


def test_control_is_given_up_only_when_the_plan_is_too_old():
    splicer = moving(stamp=10.0)
    assert not splicer.expired(12.39)
    assert splicer.expired(12.41)
    splicer.reset()
    assert not splicer.expired(99.0)


def test_ages_and_lead_are_parameters():
    splicer = TrajectorySplicer(FRANKA, lead=0.1, max_reply_age=1.0, max_chunk_age=1.2,
                                give_up_age=1.5, stop_time=0.5)
    splice = splicer.splice(10.0, STEP, ramp(0), 10.9, HOME)
    assert splice.trajectory.times[0] == pytest.approx(1.0)
    assert splice.trajectory.times[-1] <= 1.2
    assert splicer.expired(11.6)
    assert splicer.hold(HOME, np.zeros(7)).times.tolist() == [0.5]
