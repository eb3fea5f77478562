# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the policy node does with its inputs, seen from outside over ROS."""
import threading
import time

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
import numpy as np
import pytest
from rclpy.parameter import Parameter
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image

from cosmos3_ros.model.config import CheckpointError
from waiting import quiet, wait_for

ERROR, WARN = 2, 1


def nanoseconds(moment):
    return moment.sec * 10**9 + moment.nanosec


def test_chunk_carries_the_stamps_of_what_it_saw(setup):
    setup.policy_node(seed=7)
    setup.cell.say('pick up the cup')
    chunk = wait_for(lambda: setup.cell.chunks)[0]
    assert chunk.instruction == 'pick up the cup' and chunk.checkpoint == 'fake'
    assert chunk.sequence == 0 and chunk.seed == 7
    assert list(chunk.input_names) == ['wrist', 'exterior_left', 'exterior_right', 'joint_states']
    stamps = [nanoseconds(stamp) for stamp in chunk.input_stamps]
    assert stamps[0] == nanoseconds(chunk.header.stamp)
    assert max(stamps) - min(stamps) < 1e8 and 0 < nanoseconds(chunk.latency) < 5e9
    assert chunk.horizon == 32 and len(chunk.positions) == 32 * 8
    assert chunk.names[0] == 'panda_joint1' and chunk.names[7] == 'finger_joint'
    assert nanoseconds(chunk.step) == pytest.approx(1e9 / 15, abs=1)
    assert np.allclose(chunk.positions[:8], (0.1, -0.4, 0.2, -2.0, 0.3, 1.6, 0.7, 0.0), atol=1e-6)


def test_gripper_units_go_in_and_come_out_as_a_fraction(setup):
    setup.cell.pose[7] = 0.6                    # of 0.8 rad
    setup.policy_node()
    setup.cell.say('hold it')
    chunk = wait_for(lambda: setup.cell.chunks)[0]
    assert setup.policy.seen[-1][0].gripper == pytest.approx(0.75)
    assert chunk.positions[7] == pytest.approx(0.75)


def test_nothing_is_asked_without_an_instruction(setup):
    setup.policy_node()
    wait_for(lambda: setup.cell.status('cameras'))
    assert len(setup.policy.seen) == 1          # the warm-up
    assert not setup.cell.chunks
    setup.cell.say('go')
    wait_for(lambda: setup.cell.chunks)
    setup.cell.say('')
    assert quiet(setup.cell.chunks)


@pytest.mark.parametrize('stream', ['wrist', 'exterior_right', 'joint_states'])
def test_stream_that_stops_stops_chunks_and_is_named(setup, stream):
    setup.policy_node(max_camera_age=0.3, max_joint_age=0.3)
    setup.cell.say('go')
    wait_for(lambda: setup.cell.chunks)
    setup.cell.frozen.add(stream)
    part = 'joints' if stream == 'joint_states' else 'cameras'
    wait_for(lambda: setup.cell.status(part)[0] == ERROR and stream in setup.cell.status(part)[1])
    assert quiet(setup.cell.chunks)
    setup.cell.frozen.clear()
    count = len(setup.cell.chunks)
    wait_for(lambda: len(setup.cell.chunks) > count)


def test_skewed_camera_is_refused_with_the_measured_skew(setup):
    setup.cell.behind['exterior_left'] = 0.4
    node = setup.policy_node()
    setup.cell.say('go')
    wait_for(lambda: 'exterior_left is 400 ms behind' in setup.cell.status('inference')[1])
    assert not setup.cell.chunks
    assert node.statistics()['dropped']['skew'] > 0


def test_zero_stamps_count_from_receipt_and_are_reported(setup):
    setup.cell.behind['wrist'] = None
    setup.policy_node()
    setup.cell.say('go')
    assert nanoseconds(wait_for(lambda: setup.cell.chunks)[0].header.stamp) > 0
    wait_for(lambda: 'wrist: zero stamps' in setup.cell.status('cameras')[1])
    assert setup.cell.status('cameras')[0] == WARN


def test_missing_joint_is_named_with_its_topic(setup):
    setup.cell.names[3] = 'fr3_joint4'
    setup.policy_node()
    setup.cell.say('go')
    text = wait_for(lambda: setup.cell.status('joints')[1])
    assert 'panda_joint4 is not on /joint_states' in text and 'fr3_joint4' in text
    assert not setup.cell.chunks


def test_as_many_requests_are_in_flight_as_asked_for_and_inputs_keep_coming(setup):
    node = setup.policy_node(chunks_in_flight=3, max_reply_age=60.0, max_chunk_age=60.0,
                             give_up_age=60.0)
    setup.policy.release.clear()
    setup.cell.say('go')
    wait_for(lambda: node.statistics()['max_in_flight'] == 3)
    wait_for(lambda: setup.cell.status('inference')[2].get('in flight') == '3')
    assert float(setup.cell.status('cameras')[2]['wrist rate (Hz)']) > 5
    setup.policy.release.set()
    wait_for(lambda: len(setup.cell.chunks) > 5)
    assert node.statistics()['max_in_flight'] == 3
    sequences = [chunk.sequence for chunk in setup.cell.chunks]
    assert sequences == sorted(sequences)
    stamps = [nanoseconds(chunk.header.stamp) for chunk in setup.cell.chunks]
    assert len(set(stamps)) == len(stamps)      # no observation is used twice


def test_seeds_count_up_with_the_requests(setup):
    setup.policy_node(seed=2**32 - 2)
    setup.cell.say('go')
    wait_for(lambda: len(setup.cell.chunks) >= 3)
    assert [chunk.seed for chunk in setup.cell.chunks[:3]] == [2**32 - 2, 2**32 - 1, 0]


def test_chunk_that_is_not_finite_is_not_published(setup):
    node = setup.policy_node()
    setup.policy.rows = np.zeros((32, 8), np.float32)
    setup.policy.rows[5, 2] = np.nan
    setup.cell.say('go')
    wait_for(lambda: setup.cell.status('inference')[0] == ERROR)
    text = setup.cell.status('inference')[1]
    assert 'row 5' in text and 'panda_joint3' in text
    assert not setup.cell.chunks and node.statistics()['dropped']['not_finite'] > 0


def test_reply_that_comes_too_late_is_dropped(setup):
    node = setup.policy_node(max_reply_age=0.3)
    setup.policy.release.clear()
    setup.cell.say('go')
    wait_for(lambda: node.statistics()['dropped'].get('late', 0) >= 2)
    assert not setup.cell.chunks
    setup.policy.release.set()
    wait_for(lambda: setup.cell.chunks)


def test_picture_that_cannot_be_read_is_dropped_and_the_node_lives(setup):
    node = setup.policy_node()
    setup.cell.frozen.add('wrist')
    setup.cell.say('go')
    bad = Image(height=36, width=64, encoding='16UC1', step=128, data=bytes(36 * 128))
    def send():
        bad.header.stamp = setup.cell.node.get_clock().now().to_msg()
        setup.cell.cameras['wrist'].publish(bad)
        return node.statistics()['dropped'].get('picture', 0) >= 1
    wait_for(send)
    setup.cell.frozen.clear()
    wait_for(lambda: setup.cell.chunks)


@pytest.mark.parametrize('rule, texts', [('flush', {'new'}), ('finish', {'old', 'new'})])
def test_new_instruction_flushes_what_is_in_flight_or_lets_it_finish(setup, rule, texts):
    setup.policy_node(on_new_instruction=rule)
    setup.policy.release.clear()
    setup.cell.say('old')
    wait_for(lambda: any(observation.instruction == 'old'
                         for observation, _ in setup.policy.seen))
    setup.cell.say('new')
    wait_for(lambda: any('new' == observation.instruction for observation, _ in setup.policy.seen)
             or rule == 'finish')
    time.sleep(0.2)
    setup.policy.release.set()
    wait_for(lambda: any(chunk.instruction == 'new' for chunk in setup.cell.chunks))
    assert {chunk.instruction for chunk in setup.cell.chunks} == texts


def test_failing_job_is_counted_and_the_next_one_runs(setup):
    node = setup.policy_node()
    setup.policy.rows = np.zeros((32, 5), np.float32)
    setup.cell.say('go')
    wait_for(lambda: node.statistics()['dropped'].get('error'))
    wait_for(lambda: '[h, 8]' in setup.cell.status('inference')[1])
    setup.policy.rows = None
    wait_for(lambda: setup.cell.chunks)


def test_failed_configure_says_why_and_leaves_the_node_unconfigured(setup):
    setup.library.error = CheckpointError('checkpoint /none: no such folder')
    node = setup.policy_node(start=False)
    assert node.trigger_configure().name == 'FAILURE'
    wait_for(lambda: setup.cell.status('model')[0] == ERROR)
    assert setup.cell.status('model')[1] == 'checkpoint /none: no such folder'
    assert setup.cell.status('model')[2]['lifecycle state'] == 'unconfigured'
    setup.library.error = None
    assert node.trigger_configure().name == 'SUCCESS'


def test_no_checkpoint_is_one_clear_error(setup):
    node = setup.policy_node(start=False, checkpoint='')
    assert node.trigger_configure().name == 'FAILURE'
    wait_for(lambda: setup.cell.status('model')[0] == ERROR)
    assert 'policy_checkpoint and checkpoint are empty' in setup.cell.status('model')[1]


def test_state_is_readable_while_a_configure_takes_long(setup):
    setup.policy.release.clear()                # the warm-up does not end
    node = setup.policy_node(start=False)
    configuring = threading.Thread(target=node.trigger_configure)
    configuring.start()
    client = setup.cell.node.create_client(GetState, 'policy/get_state')
    assert client.wait_for_service(10.0)
    future = client.call_async(GetState.Request())
    wait_for(future.done)
    assert future.result().current_state.label == 'configuring'
    setup.policy.release.set()
    configuring.join()


def test_transition_that_the_state_lacks_is_answered_with_false(setup):
    setup.policy_node()
    client = setup.cell.node.create_client(ChangeState, 'policy/change_state')
    assert client.wait_for_service(10.0)
    future = client.call_async(ChangeState.Request(
        transition=Transition(id=Transition.TRANSITION_CONFIGURE)))
    wait_for(future.done)
    assert not future.result().success
    setup.cell.say('go')
    wait_for(lambda: setup.cell.chunks)


def test_nothing_is_published_after_deactivation_and_all_again_after_activation(setup):
    node = setup.policy_node()
    setup.cell.say('go')
    wait_for(lambda: setup.cell.chunks)
    assert node.trigger_deactivate().name == 'SUCCESS'
    assert quiet(setup.cell.chunks)
    assert node.trigger_cleanup().name == 'SUCCESS'
    assert node.trigger_configure().name == 'SUCCESS'
    assert node.trigger_activate().name == 'SUCCESS'
    count = len(setup.cell.chunks)
    wait_for(lambda: len(setup.cell.chunks) > count)
    assert setup.cell.chunks[-1].sequence < count + 5 and node.statistics()['chunks'] >= 1


def test_change_that_does_not_fit_is_refused_and_a_good_one_counts(setup):
    node = setup.policy_node()
    result = node.set_parameters([Parameter('max_reply_age', value=6.5)])[0]
    assert not result.successful and 'max_chunk_age' in result.reason
    result = node.set_parameters([Parameter('on_excess', value='clamp')])[0]
    assert not result.successful and 'refuse, limit' in result.reason
    result = node.set_parameters([Parameter('checkpoint', value='other')])[0]
    assert not result.successful
    setup.policy.release.clear()
    assert node.set_parameters([Parameter('chunks_in_flight', value=1)])[0].successful
    setup.cell.say('go')
    wait_for(lambda: node.statistics()['max_in_flight'] == 1)
    time.sleep(0.3)
    assert node.statistics()['max_in_flight'] == 1


def test_publisher_with_another_qos_is_reported(setup):
    setup.policy_node(camera_reliability='reliable')      # the cell offers best effort
    wait_for(lambda: 'RELIABILITY' in setup.cell.status('cameras')[1])
    assert setup.cell.status('cameras')[0] == ERROR
    assert qos_profile_sensor_data.reliability.name == 'BEST_EFFORT'    # ours was a copy


def test_two_namespaces_do_not_hear_each_other(setup):
    left = setup.another_cell('left')
    setup.policy_node()
    setup.policy_node(namespace='left')
    left.say('go')
    wait_for(lambda: left.chunks)
    assert quiet(setup.cell.chunks) and not setup.cell.chunks
    wait_for(lambda: {'policy', 'left/policy'} <= setup.cell.reporting)


def test_instruction_may_change_while_a_drop_is_told(setup):
    """Who is told of a drop may wait for a lock of the one who changes the instruction."""
    node, stuck = setup.policy_node(max_skew=0.05), []
    told = node._requests._dropped

    def tell(*drop):
        thread = threading.Thread(target=node._requests.instruct, args=('go',), daemon=True)
        thread.start()
        thread.join(5.0)
        stuck.append(thread.is_alive())
        told(*drop)

    node._requests._dropped = tell
    setup.cell.behind['exterior_right'] = 0.2
    setup.cell.say('go')
    wait_for(lambda: len(stuck) > 1)
    assert not any(stuck)
