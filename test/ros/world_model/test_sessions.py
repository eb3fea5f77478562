# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Steering and closing sessions, their limit and their age."""
from cosmos3_ros.action import Imagine

from waiting import wait_for

Outcome = Imagine.Result


def test_new_prompt_holds_from_the_window_that_the_answer_names(world, pace):
    plain = world.run('a cup falls', frames=93, seed=4)[1].session
    pace.windows, pace.allowed = 0, 1
    goal = world.send('a cup falls', frames=93, seed=4)
    wait_for(lambda: pace.windows == 2 and len(world.frames) == 93 + 29)
    session = world.frames[-1].session
    answer = world.steer(session, 'the cup breaks')
    assert answer.success and answer.window == 2        # window 1 has begun
    pace.allowed = 1000
    assert goal.ended()[1].outcome == Outcome.SUCCEEDED
    steered, plain = world.video(session, 93), world.video(plain, 93)
    assert (steered[:61] == plain[:61]).all()
    assert (steered[61:] != plain[61:]).any(axis=(1, 2, 3)).all()
    assert [frame.prompt for frame in world.frames[93:]] == (
        ['a cup falls'] * 61 + ['the cup breaks'] * 32)


def test_prompt_of_a_goal_that_goes_on_steers_and_an_empty_one_does_not(world):
    session = world.run('a cup falls')[1].session
    world.run('', session=session, frames=32)
    world.run('it breaks', session=session, frames=32)
    wait_for(lambda: len(world.frames) == 93)
    assert [world.frames[i].prompt for i in (28, 60, 61)] == [
        'a cup falls', 'a cup falls', 'it breaks']


def test_goal_that_repeats_the_prompt_in_force_takes_over_from_one_that_is_to_come(world):
    session = world.run('a cup falls')[1].session
    assert world.steer(session, 'a dog runs').window == 1
    world.run('a cup falls', session=session, frames=32)
    wait_for(lambda: len(world.frames) == 61)
    assert {frame.prompt for frame in world.frames} == {'a cup falls'}


def test_steering_is_refused_with_the_reason(world):
    assert 'open sessions: none' in world.steer('gone', 'go').message
    session = world.run(frames=5)[1].session
    answer = world.steer(session, ' ')
    assert not answer.success and 'prompt is empty' in answer.message
    answer = world.steer(session, 'word ' * 5000)
    assert not answer.success and 'wanted at most 4096 tokens' in answer.message


def test_closing_frees_and_a_later_goal_names_those_that_are_open(world):
    first, second = (world.run(frames=5)[1].session for _ in range(2))
    answer = world.close_session(first)
    assert answer.success and answer.bytes_freed > 0
    result = world.run(session=first, frames=4)[1]
    assert result.outcome == Outcome.REFUSED
    assert first in result.message and f'open sessions: {second}' in result.message
    answer = world.close_session(first)
    assert not answer.success and f'open sessions: {second}' in answer.message
    assert world.run(session=second, frames=4)[1].outcome == Outcome.SUCCEEDED


def test_session_in_use_is_neither_closed_nor_shared(world, pace):
    pace.allowed = 1
    goal = world.send(frames=0)
    wait_for(lambda: pace.windows == 2 and len(world.frames) == 29)
    session = world.frames[0].session
    assert 'cancel that first' in world.close_session(session).message
    result = world.run(session=session, frames=4)[1]
    assert result.outcome == Outcome.REFUSED and 'cancel that first' in result.message
    goal.cancel()
    assert goal.ended()[1].session == session
    assert world.close_session(session).success


def test_one_session_too_many_is_refused_by_name_of_the_others(start, reader):
    start(session_limit=1)
    reader.meet()
    session = reader.run(frames=5)[1].session
    result = reader.run(frames=5)[1]
    assert result.outcome == Outcome.REFUSED and result.session == ''
    assert 'the limit' in result.message and session in result.message
    assert reader.run(frames=4, session=session)[1].outcome == Outcome.SUCCEEDED


def test_idle_session_is_closed(setup, start, reader):
    start(session_idle=1.0)
    reader.meet()
    session = reader.run(frames=5)[1].session
    wait_for(lambda: setup.cell.status('imagination')[2].get('sessions') == session)
    wait_for(lambda: setup.cell.status('imagination')[2].get('sessions') == 'none')
    assert reader.run(frames=4, session=session)[1].outcome == Outcome.REFUSED


def test_session_that_does_not_fit_is_refused_with_the_bytes(world, monkeypatch):
    from cosmos3_ros.engine import sessions
    monkeypatch.setattr(sessions, 'free_bytes', lambda device: 10)
    result = world.run(frames=5)[1]
    assert result.outcome == Outcome.REFUSED and result.session == ''
    assert 'GB are free' in result.message
