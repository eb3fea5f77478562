# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""When the policy node moves an arm, with what messages, and how it stops."""
import sys
import time

import numpy as np
import pytest
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool

from waiting import quiet, wait_for

ERROR = 2
ARM = [f'panda_joint{index}' for index in range(1, 8)]


def seconds(moment):
    return moment.sec + moment.nanosec * 1e-9


def moving(setup, **parameters):
    """A node that moves the arm."""
    node = setup.policy_node(allow_motion=True, **parameters)
    setup.cell.say('go')
    wait_for(lambda: setup.cell.chunks)
    assert setup.cell.set_arm(True).success
    wait_for(lambda: setup.cell.trajectories)
    return node


def test_both_keys_are_needed_to_move(setup):
    node = setup.policy_node()
    setup.cell.say('go')
    wait_for(lambda: setup.cell.chunks)
    answer = setup.cell.set_arm(True)
    assert not answer.success and 'allow_motion' in answer.message
    assert node.set_parameters([Parameter('allow_motion', value=True)])[0].successful
    assert quiet(setup.cell.trajectories) and not setup.cell.trajectories
    assert setup.cell.set_arm(True).success
    wait_for(lambda: setup.cell.trajectories)
    assert node.statistics()['trajectories'] > 0


def test_trajectory_is_one_that_a_controller_takes(setup):
    moving(setup)
    wait_for(lambda: setup.cell.grippers)
    for message, names in ((setup.cell.trajectories[-1], ARM),
                           (setup.cell.grippers[-1], ['finger_joint'])):
        times = [seconds(point.time_from_start) for point in message.points]
        assert list(message.joint_names) == names
        assert times[0] > 0 and np.all(np.diff(times) > 0)
        assert all(len(point.positions) == len(names) for point in message.points)
    stamps = {seconds(chunk.header.stamp) for chunk in setup.cell.chunks}
    assert seconds(setup.cell.trajectories[-1].header.stamp) in stamps
    assert list(setup.cell.trajectories[-1].points[-1].velocities) == [0.0] * 7


def test_gripper_is_commanded_in_its_own_units(setup):
    setup.policy.rows = np.tile(
        np.float32([0.1, -0.4, 0.2, -2.0, 0.3, 1.6, 0.7, 0.1]), (32, 1))    # 0.9 closed
    moving(setup)
    wait_for(lambda: setup.cell.grippers)
    assert setup.cell.grippers[-1].points[-1].positions[0] == pytest.approx(0.8)


def test_disarming_holds_the_measured_position(setup):
    moving(setup)
    assert setup.cell.set_arm(False).success
    hold = wait_for(lambda: [message for message in setup.cell.trajectories
                             if len(message.points) == 1])[-1]
    assert quiet(setup.cell.trajectories) and setup.cell.trajectories[-1] is hold
    assert seconds(hold.header.stamp) == 0          # now
    assert np.allclose(hold.points[0].positions, (0.1, -0.4, 0.2, -2.0, 0.3, 1.6, 0.7))
    assert list(hold.points[0].velocities) == [0.0] * 7
    assert setup.cell.grippers[-1].points[0].positions[0] == pytest.approx(0.0)


@pytest.mark.parametrize('stop', ['deactivate', 'key', 'make_safe'])
def test_every_way_to_stop_ends_in_a_hold(setup, stop):
    node = moving(setup)
    if stop == 'deactivate':
        assert node.trigger_deactivate().name == 'SUCCESS'
    elif stop == 'key':
        assert node.set_parameters([Parameter('allow_motion', value=False)])[0].successful
    else:
        node.make_safe()
    wait_for(lambda: len(setup.cell.trajectories[-1].points) == 1)
    assert quiet(setup.cell.trajectories) and len(setup.cell.trajectories[-1].points) == 1


def test_latched_instruction_never_moves_a_node_that_was_started_anew(setup):
    node = moving(setup)
    node.trigger_deactivate()
    wait_for(lambda: len(setup.cell.trajectories[-1].points) == 1)
    node.trigger_activate()
    count, moved = len(setup.cell.chunks), len(setup.cell.trajectories)
    wait_for(lambda: len(setup.cell.chunks) > count + 2)
    assert len(setup.cell.trajectories) == moved


def test_too_large_jump_is_published_as_a_chunk_and_not_executed(setup):
    setup.policy.rows = np.zeros((32, 8), np.float32)   # joint 4 stands at -2 rad
    node = setup.policy_node(allow_motion=True)
    setup.cell.say('go')
    wait_for(lambda: setup.cell.chunks)
    assert setup.cell.set_arm(True).success
    wait_for(lambda: node.statistics()['dropped'].get('gate'))
    assert not setup.cell.trajectories
    assert node.set_parameters([Parameter('on_excess', value='limit')])[0].successful
    wait_for(lambda: setup.cell.trajectories)
    wait_for(lambda: setup.cell.status('motion')[2].get('largest excess (rad)', '')
             .endswith('panda_joint4'))


@pytest.mark.parametrize('cause', ['engine', 'camera'])
def test_without_new_chunks_control_is_given_up(setup, cause):
    moving(setup, max_reply_age=0.5, max_chunk_age=0.6, give_up_age=0.8)
    if cause == 'engine':
        setup.policy.release.clear()
    else:
        setup.cell.frozen.add('exterior_left')
    wait_for(lambda: setup.cell.status('motion')[0] == ERROR)
    _, text, values = setup.cell.status('motion')
    assert 'give_up_age' in text and values['armed'] == 'False'
    wait_for(lambda: len(setup.cell.trajectories[-1].points) == 1)
    setup.policy.release.set()
    setup.cell.frozen.clear()
    count, moved = len(setup.cell.chunks), len(setup.cell.trajectories)
    wait_for(lambda: len(setup.cell.chunks) > count + 2)
    assert len(setup.cell.trajectories) == moved        # until it is armed again
    assert setup.cell.set_arm(True).success
    wait_for(lambda: len(setup.cell.trajectories) > moved)


def test_armed_node_without_an_instruction_stays_armed(setup):
    setup.policy_node(allow_motion=True, max_reply_age=0.2, max_chunk_age=0.2, give_up_age=0.2)
    wait_for(lambda: setup.cell.set_arm(True).success)
    time.sleep(1.5)
    assert setup.cell.status('motion')[2]['armed'] == 'True'


def test_new_instruction_stops_the_old_motion(setup):
    moving(setup)
    setup.policy.release.clear()
    setup.cell.say('something else')
    wait_for(lambda: len(setup.cell.trajectories[-1].points) == 1)
    setup.policy.release.set()
    wait_for(lambda: len(setup.cell.trajectories[-1].points) > 1)


def test_arming_needs_an_active_node_and_joint_states(setup):
    setup.cell.frozen.add('joint_states')
    node = setup.policy_node(allow_motion=True)
    assert 'no joint states on /joint_states' in setup.cell.set_arm(True).message
    node.trigger_deactivate()
    assert 'not active' in setup.cell.set_arm(True).message


def test_time_that_jumps_back_resets_and_disarms(setup):
    clock = setup.cell.node.create_publisher(Clock, '/clock', 10)
    setup.cell.node.set_parameters([Parameter('use_sim_time', value=True)])
    setup.policy_node(allow_motion=True, use_sim_time=True)
    setup.cell.say('go')
    time.sleep(0.3)
    assert not setup.cell.chunks                # no /clock yet
    now = [100.0]

    def tick():
        now[0] += 0.05
        message = Clock()
        message.clock.sec, message.clock.nanosec = int(now[0]), int(now[0] % 1 * 1e9)
        clock.publish(message)
        time.sleep(0.04)

    def after_ticks(condition):
        def run():
            tick()
            return condition()
        return wait_for(run)

    after_ticks(lambda: len(setup.cell.chunks) > 2)
    after_ticks(setup.cell.arm.call_async(SetBool.Request(data=True)).done)
    after_ticks(lambda: setup.cell.trajectories)
    now[0] = 50.0
    after_ticks(lambda: 'time jumped back' in setup.cell.status('motion')[1])
    assert setup.cell.status('motion')[0] == ERROR
    assert setup.cell.status('motion')[2]['armed'] == 'False'
    after_ticks(lambda: seconds(setup.cell.chunks[-1].header.stamp) < 60)


def test_thread_that_is_held_up_is_no_jump_of_time(setup, monkeypatch):
    node = moving(setup)
    read, late = node._now, [True]

    def now():
        moment = read()
        if sys._getframe(1).f_code.co_name == '_read_clock' and late:
            late.clear()
            time.sleep(0.3)             # others read the clock meanwhile, if they can
        return moment

    monkeypatch.setattr(node, '_now', now)
    count = len(setup.cell.trajectories)
    wait_for(lambda: not late and len(setup.cell.trajectories) > count + 5)
    assert node._motion.armed


def test_node_that_stops_while_it_is_armed_is_not_armed(setup, monkeypatch):
    node = setup.policy_node(allow_motion=True)
    arm = node._motion.arm
    monkeypatch.setattr(node._motion, 'arm', lambda now: (node.trigger_deactivate(), arm(now))[1])
    answer = wait_for(lambda: setup.cell.set_arm(True))
    assert not answer.success and 'not active' in answer.message
    node.trigger_activate()
    assert not node._motion.armed


def test_unknown_velocities_do_not_spoil_the_stop(setup, monkeypatch):
    publish = setup.cell.joints.publish

    def without_velocities(message):
        message.velocity = [float('nan')] * len(message.name)
        publish(message)

    monkeypatch.setattr(setup.cell.joints, 'publish', without_velocities)
    moving(setup)
    setup.cell.set_arm(False)
    stop = wait_for(lambda: [message for message in setup.cell.trajectories
                             if seconds(message.header.stamp) == 0])[-1]
    assert np.isfinite([*stop.points[0].positions, *stop.points[0].velocities]).all()
