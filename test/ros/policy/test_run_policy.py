# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The action run_policy: how goals are taken, reported on and ended."""
import time

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration, Time
from cosmos3_ros.action import RunPolicy
import pytest
from rosgraph_msgs.msg import Clock

from action_client import ActionClient
from waiting import quiet, wait_for

Outcome = RunPolicy.Result


@pytest.fixture
def send(setup):
    """Send a goal; its handle, and the list that its feedback goes to."""
    client = ActionClient(setup.cell.node, RunPolicy, 'policy/run_policy')

    def run(instruction='pick', **fields):
        assert client.wait_for_server(10.0)
        feedback = []
        future = client.send_goal_async(
            RunPolicy.Goal(instruction=instruction, **fields),
            feedback_callback=lambda message: feedback.append(message.feedback))
        wait_for(future.done)
        return future.result(), feedback

    return run


def ended(handle):
    future = handle.get_result_async()
    wait_for(future.done)
    return future.result().status, future.result().result


def test_goal_ends_after_its_chunks_and_reports_each(setup, send):
    setup.policy_node()
    handle, feedback = send('stack the cubes', max_chunks=4, seed=100)
    status, result = ended(handle)
    assert status == GoalStatus.STATUS_SUCCEEDED and result.outcome == Outcome.SUCCEEDED
    assert result.chunks == 4
    wait_for(lambda: len(feedback) == 4)
    assert [message.chunks for message in feedback] == [1, 2, 3, 4]
    assert feedback[-1].latency.sec + feedback[-1].latency.nanosec > 0
    wait_for(lambda: len(setup.cell.chunks) >= 4)
    assert setup.cell.chunks[0].instruction == 'stack the cubes'
    assert [chunk.seed for chunk in setup.cell.chunks[:4]] == [100, 101, 102, 103]
    assert quiet(setup.cell.chunks)


def test_cancel_during_inference_ends_in_canceled(setup, send):
    node = setup.policy_node()
    setup.policy.release.clear()
    handle, _ = send()
    wait_for(lambda: len(setup.policy.seen) > 1)
    wait_for(lambda: handle.status == GoalStatus.STATUS_EXECUTING)
    cancel = handle.cancel_goal_async()
    wait_for(cancel.done)
    assert len(cancel.result().goals_canceling) == 1
    status, result = ended(handle)              # the job is still blocked
    assert status == GoalStatus.STATUS_CANCELED and result.outcome == Outcome.CANCELLED
    wait_for(lambda: node.statistics()['dropped'].get('cancelled'))
    setup.policy.release.set()
    assert quiet(setup.cell.chunks) and not setup.cell.chunks


def test_newer_goal_takes_over(setup, send):
    setup.policy_node()
    first, _ = send('first')
    second, _ = send('second')
    status, result = ended(first)
    assert status == GoalStatus.STATUS_ABORTED and result.outcome == Outcome.PREEMPTED
    assert 'second' in result.message
    wait_for(lambda: any(chunk.instruction == 'second' for chunk in setup.cell.chunks))
    second.cancel_goal_async()
    assert ended(second)[0] == GoalStatus.STATUS_CANCELED


def test_new_text_on_the_topic_takes_over_and_a_repeated_one_does_not(setup, send):
    setup.policy_node()
    setup.cell.say('old')
    wait_for(lambda: setup.cell.chunks)
    handle, feedback = send('goal')
    setup.cell.say('old')
    wait_for(lambda: len(feedback) > 3)
    setup.cell.say('new')
    assert ended(handle)[1].outcome == Outcome.PREEMPTED
    wait_for(lambda: setup.cell.chunks[-1].instruction == 'new')


def test_goal_ends_with_its_time(setup, send):
    setup.policy_node()
    setup.policy.release.clear()
    handle, _ = send(timeout=Duration(nanosec=300_000_000))
    status, result = ended(handle)
    assert status == GoalStatus.STATUS_ABORTED and result.outcome == Outcome.TIMEOUT
    assert result.chunks == 0


def test_goal_without_an_instruction_or_an_active_node_is_rejected(setup, send):
    node = setup.policy_node()
    assert not send(' ')[0].accepted
    node.trigger_deactivate()
    assert not send()[0].accepted


def test_deactivation_ends_a_goal_as_failed(setup, send):
    node = setup.policy_node()
    handle, _ = send()
    wait_for(lambda: setup.cell.chunks)
    node.trigger_deactivate()
    status, result = ended(handle)
    assert status == GoalStatus.STATUS_ABORTED and result.outcome == Outcome.FAILED
    assert result.chunks >= 1


def test_dropped_observations_are_reported(setup, send):
    setup.policy_node()
    handle, feedback = send()
    wait_for(lambda: feedback)
    setup.cell.behind['exterior_left'] = 0.4    # beyond max_skew
    wait_for(lambda: setup.cell.status('inference')[2].get('dropped: skew'))
    setup.cell.behind.clear()
    wait_for(lambda: feedback[-1].dropped > 0)
    handle.cancel_goal_async()
    assert ended(handle)[1].dropped > 0


@pytest.mark.parametrize('way, halts', [('cancel', True), ('success', False)])
def test_a_cancelled_goal_stops_the_arm_and_a_finished_one_lets_it_arrive(setup, send, way, halts):
    setup.policy_node(allow_motion=True, on_new_instruction='finish')
    wait_for(lambda: setup.cell.set_arm(True).success)
    time.sleep(0.2)                             # observations from before do not move
    handle, _ = send(max_chunks=3 if way == 'success' else 0)
    wait_for(lambda: len(setup.cell.trajectories) >= 3)
    if way == 'cancel':
        handle.cancel_goal_async()
    ended(handle)
    assert quiet(setup.cell.trajectories)
    assert (len(setup.cell.trajectories[-1].points) == 1) is halts


def test_empty_text_ends_every_goal(setup, send):
    setup.policy_node()
    for _ in range(2):                          # nothing was heard before; the same was
        handle, _ = send()
        setup.cell.say('')
        assert ended(handle)[1].outcome == Outcome.PREEMPTED
    assert quiet(setup.cell.chunks)


@pytest.mark.parametrize('rule', ['flush', 'finish'])
def test_requests_of_an_earlier_instruction_are_not_counted(setup, send, rule):
    node = setup.policy_node(on_new_instruction=rule)
    setup.cell.say('old')
    wait_for(lambda: setup.cell.chunks)
    setup.policy.release.clear()
    wait_for(lambda: node._requests.pipeline.in_flight == 2)
    handle, feedback = send('new', max_chunks=2)
    setup.policy.release.set()
    result = ended(handle)[1]
    assert (result.outcome, result.chunks, result.dropped) == (Outcome.SUCCEEDED, 2, 0)
    wait_for(lambda: len(feedback) == 2)
    instructions = {chunk.sequence: chunk.instruction for chunk in setup.cell.chunks}
    assert [instructions[message.sequence] for message in feedback] == ['new', 'new']


def test_goal_whose_node_stops_before_it_begins_ends_as_failed(setup, send, monkeypatch):
    node = setup.policy_node()
    instructions = node._instructions
    monkeypatch.setattr(instructions._server, '_handle_accepted_callback', lambda handle: (
        node.trigger_deactivate(), instructions._begin(handle)))
    handle, _ = send()
    status, result = ended(handle)
    assert status == GoalStatus.STATUS_ABORTED and result.outcome == Outcome.FAILED
    node.trigger_activate()
    assert quiet(setup.cell.chunks) and not setup.cell.chunks


def test_time_of_a_goal_starts_with_the_clock(setup, send):
    setup.policy_node(use_sim_time=True)
    clock = setup.cell.node.create_publisher(Clock, '/clock', 10)
    future = send(timeout=Duration(sec=60))[0].get_result_async()

    def at(second):
        clock.publish(Clock(clock=Time(sec=second)))
        return future.done()

    wait_for(clock.get_subscription_count)
    for _ in range(10):                         # the node looks at its goal every 50 ms
        at(100)
        time.sleep(0.05)
    assert not at(159)
    wait_for(lambda: at(161))
    assert future.result().result.outcome == Outcome.TIMEOUT
