# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Goals that are cancelled, that fail, and what is left of their sessions."""
from action_msgs.msg import GoalStatus
from cosmos3_ros.action import Imagine
import numpy as np

from engine_jobs import Gate
from waiting import quiet, wait_for

Outcome = Imagine.Result


def test_cancel_is_answered_while_the_engine_is_busy_and_ends_in_canceled(setup, world):
    goal = world.send(frames=0)
    wait_for(lambda: len(world.frames) > 29)
    with Gate(setup.engine):                    # no step ends before the gate is opened
        answer = goal.cancel()
        wait_for(answer.done)
        assert len(answer.result().goals_canceling) == 1
    status, result = goal.ended()
    assert status == GoalStatus.STATUS_CANCELED and result.outcome == Outcome.CANCELLED
    assert quiet(world.frames) and len(world.frames) == result.frames
    assert setup.engine.submit(iter_none()).result(10) is None      # the engine goes on


def test_session_goes_on_after_a_cancel_in_mid_window_as_if_it_had_not_been(world, pace):
    whole = world.run(frames=93, seed=7)[1].session
    pace.windows, pace.allowed = 0, 2
    goal = world.send(frames=0, seed=7)
    wait_for(lambda: pace.windows == 3)         # in the third window
    goal.cancel()
    result = goal.ended()[1]
    assert (result.outcome, result.frames, result.windows) == (Outcome.CANCELLED, 61, 2)
    pace.allowed = 1000
    assert world.run(frames=32, session=result.session)[1].windows == 3
    np.testing.assert_array_equal(world.video(result.session, 93), world.video(whole, 93))


def test_no_frame_is_lost_when_a_goal_is_cancelled_while_it_is_decoded(world):
    whole = world.run(frames=93, seed=7)[1].session
    session, made = '', 0
    for wanted in (1, 13, 34):                  # somewhere in the burst of a window
        goal = world.send(frames=0, seed=7, session=session)
        wait_for(lambda wanted=wanted, session=session: len(
            [frame for frame in world.frames if frame.session != whole]) > wanted)
        goal.cancel()
        result = goal.ended()[1]
        session, made = result.session, made + result.frames
    if made < 93:
        assert world.run(frames=93 - made, session=session)[1].outcome == Outcome.SUCCEEDED
    np.testing.assert_array_equal(world.video(session, 93), world.video(whole, 93))


def test_session_cancelled_before_its_first_window_does_not_stay(setup, world, pace):
    pace.allowed = 0
    goal = world.send(frames=29)
    wait_for(lambda: pace.windows == 1)
    goal.cancel()
    result = goal.ended()[1]
    assert (result.outcome, result.session, result.frames) == (Outcome.CANCELLED, '', 0)
    pace.allowed = 1000
    assert 'open sessions: none' in world.run(session='other')[1].message


def test_error_in_a_step_fails_the_goal_and_the_session_stands_at_its_last_window(world, pace):
    whole = world.run(frames=61, seed=2)[1].session
    result = world.run(frames=29, seed=2)[1]
    pace.error = ValueError('shapes differ')    # in a step, so it is no refusal
    status, failed = world.run(frames=32, session=result.session)
    assert status == GoalStatus.STATUS_ABORTED and failed.outcome == Outcome.FAILED
    assert failed.message == 'ValueError: shapes differ' and failed.windows == 1
    pace.error = None
    assert world.run(frames=32, session=result.session)[1].outcome == Outcome.SUCCEEDED
    np.testing.assert_array_equal(world.video(result.session, 61), world.video(whole, 61))


def test_session_that_fails_in_its_first_window_does_not_stay(world, pace):
    pace.error = RuntimeError('out of memory')
    for _ in range(3):                          # more than the limit of sessions
        result = world.run()[1]
        assert (result.outcome, result.session) == (Outcome.FAILED, '')
        assert result.message == 'RuntimeError: out of memory'
    pace.error = None
    assert world.run(frames=5)[1].outcome == Outcome.SUCCEEDED


def test_error_of_a_publisher_fails_the_goal_and_frees_the_engine(start, reader, monkeypatch):
    node = start()
    reader.meet()
    publish = node._server.output.publish

    def broken(frame, opened, name):
        if frame.index > 4:
            raise OSError('no buffer')
        publish(frame, opened, name)

    monkeypatch.setattr(node._server.output, 'publish', broken)
    result = reader.run(frames=0)[1]            # would never end
    assert result.outcome == Outcome.FAILED and result.message == 'OSError: no buffer'
    monkeypatch.setattr(node._server.output, 'publish', publish)
    assert reader.run(frames=5)[1].outcome == Outcome.SUCCEEDED


def iter_none():
    yield
