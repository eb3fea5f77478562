# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The node's states: what it takes, ends and lets go of in each."""
import gc
import threading
import weakref

from action_msgs.msg import GoalStatus
from cosmos3_ros.action import Imagine
from rclpy.parameter import Parameter

from waiting import quiet, wait_for

Outcome = Imagine.Result
ERROR = 2


def test_goals_are_rejected_before_activation_and_after_deactivation(start, reader):
    node = start(active=False)
    reader.meet()
    assert not reader.send().accepted
    assert node.trigger_configure().name == 'SUCCESS' and not reader.send().accepted
    assert node.trigger_activate().name == 'SUCCESS'
    assert reader.run(frames=5)[1].outcome == Outcome.SUCCEEDED
    assert node.trigger_deactivate().name == 'SUCCESS'
    assert not reader.send().accepted


def test_deactivation_ends_goals_and_sessions_stay(start, reader, pace):
    node = start()
    reader.meet()
    pace.allowed = 1
    goal = reader.send(frames=61)
    wait_for(lambda: pace.windows == 2 and len(reader.frames) == 29)
    assert node.trigger_deactivate().name == 'SUCCESS'
    assert not [thread for thread in threading.enumerate() if thread.name == 'imagine']
    status, result = goal.ended()
    assert status == GoalStatus.STATUS_ABORTED and result.outcome == Outcome.FAILED
    assert result.message == 'the node was deactivated'
    assert quiet(reader.frames)
    pace.allowed = 1000
    assert node.trigger_activate().name == 'SUCCESS'
    assert reader.run(frames=32, session=result.session)[1].windows == 2


def test_cleanup_lets_go_of_sessions_and_model(setup, start, reader, pace):
    node = start()
    reader.meet()
    session = reader.run(frames=5)[1].session
    kept = weakref.ref(node._sessions.peek(session).session)
    goal = reader.send(frames=0)
    wait_for(lambda: pace.windows >= 2)
    assert node.trigger_deactivate().name == 'SUCCESS'
    assert node.trigger_cleanup().name == 'SUCCESS'
    goal.ended()
    wait_for(lambda: setup.cell.status('imagination')[1] == 'not loaded')
    assert setup.cell.status('imagination')[2]['sessions'] == 'none'
    gc.collect()
    assert kept() is None and node._videos.model is None
    assert node.trigger_configure().name == 'SUCCESS'
    assert node.trigger_activate().name == 'SUCCESS'
    assert reader.run(frames=5)[1].outcome == Outcome.SUCCEEDED


def test_no_checkpoint_is_one_clear_error(setup, start):
    node = start(active=False, checkpoint='')
    assert node.trigger_configure().name == 'FAILURE'
    wait_for(lambda: setup.cell.status('imagination')[0] == ERROR)
    assert 'parameter checkpoint is empty' in setup.cell.status('imagination')[1]


def test_camera_age_may_change_at_run_time_and_limits_may_not(start):
    node = start(active=False)
    assert node.set_parameters([Parameter('max_camera_age', value=0.5)])[0].successful
    assert not node.set_parameters([Parameter('max_camera_age', value=99.0)])[0].successful
    assert not node.set_parameters([Parameter('session_limit', value=3)])[0].successful
