# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The process as it runs on a robot, with a tiny random model, met over ROS only."""
import os
import signal
import subprocess
import sys

import pytest

from waiting import wait_for

# A test machine may need seconds for a chunk.
PARAMETERS = {
    'checkpoint': 'random:tiny', 'max_camera_age': 5.0, 'max_joint_age': 5.0,
    'max_reply_age': 50.0, 'max_chunk_age': 50.0, 'give_up_age': 100.0, 'on_excess': 'limit',
    'step_jump': 0.01, 'allow_motion': 'true'}


def arguments(*words, **parameters):
    pairs = (f'{name}:={value}' for name, value in (PARAMETERS | parameters).items())
    return ['--ros-args', *words, *(word for pair in pairs for word in ('-p', pair))]


@pytest.fixture
def child(setup, tmp_path):
    """The process in the domain of the fake cell, and the file that it writes to."""
    output = tmp_path / 'output'
    environment = {'ROS_DOMAIN_ID': str(setup.context.get_domain_id()), 'OMP_NUM_THREADS': '1'}
    with output.open('w') as file:
        process = subprocess.Popen(
            [sys.executable, '-m', 'cosmos3_ros.ros.process', *arguments()],
            stdout=file, stderr=subprocess.STDOUT, env=os.environ | environment)
    yield process, output
    if process.poll() is None:
        process.kill()
        process.wait()


@pytest.fixture
def run(monkeypatch, capfd):
    """Run the process in this one; its exit code and what it wrote."""
    def main(args):
        from cosmos3_ros.ros.process import serve
        code = serve(args)
        return code, ''.join(capfd.readouterr())

    for name in ('AMENT_PREFIX_PATH', 'FASTRTPS_DEFAULT_PROFILES_FILE'):
        monkeypatch.setenv(name, os.environ.get(name, ''))      # restored afterwards
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield main
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_chunks_and_motion_come_and_a_signal_ends_in_a_hold(setup, child, number):
    process, output = child
    setup.cell.say('pick up the cup')
    chunk = wait_for(lambda: setup.cell.chunks, 120)[0]
    assert chunk.checkpoint == 'random:tiny' and len(chunk.positions) == 32 * 8
    assert setup.cell.set_arm(True).success
    wait_for(lambda: setup.cell.trajectories, 60)
    process.send_signal(number)                 # requests are in flight all the time
    assert process.wait(30) == 0
    assert 'Traceback' not in output.read_text()
    assert 'exception' not in output.read_text()
    wait_for(lambda: len(setup.cell.trajectories[-1].points) == 1)


def test_bad_checkpoint_is_one_error_and_exit_code_1(run, tmp_path):
    code, output = run(arguments(checkpoint=f'{tmp_path}/none'))
    assert code == 1
    errors = [line for line in output.splitlines() if '[ERROR]' in line]
    assert len(errors) == 1 and f'{tmp_path}/none' in errors[0] and 'wanted' in errors[0]
    assert 'Traceback' not in output


def test_parameter_of_the_wrong_type_is_named_with_its_type_and_file(run, tmp_path):
    file = tmp_path / 'robot.yaml'
    file.write_text('/**:\n  ros__parameters:\n    max_skew: far\n')
    code, output = run(arguments('--params-file', str(file)))
    assert code == 1
    for word in ('max_skew', 'DOUBLE', 'STRING', str(file)):
        assert word in output
    assert 'Traceback' not in output


def test_topic_that_is_no_name_is_named(run):
    code, output = run(arguments(joint_states_topic='joint states'))
    assert code == 1
    assert "joint_states_topic: found 'joint states'" in output and 'Traceback' not in output


def test_parameters_that_do_not_fit_together_are_named(run):
    code, output = run(arguments(give_up_age=20.0))
    assert code == 1
    assert 'max_chunk_age: found 50.0 s, wanted at most give_up_age, which is 20.0 s' in output


def test_what_does_not_fit_into_memory_is_refused_before_loading(run, monkeypatch):
    from cosmos3_ros.ros import memory
    monkeypatch.setattr(memory, 'free_bytes', lambda device: 1000)
    code, output = run(arguments())
    assert code == 1
    assert '0.00 GB are free on cpu' in output and 'weights of base' in output
    assert 'loading' not in output and 'Traceback' not in output
