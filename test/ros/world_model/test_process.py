# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The world model beside the policy in the process of a robot, met from another process."""
import os
import signal
import subprocess
import sys

from cosmos3_ros.action import Imagine
import pytest

from waiting import wait_for

Outcome = Imagine.Result
# A test machine may need seconds for a chunk.
PARAMETERS = {
    'checkpoint': 'random:tiny', 'device': 'cpu', 'nodes': '[policy, world_model]',
    'max_camera_age': 5.0, 'max_joint_age': 5.0, 'max_reply_age': 50.0, 'max_chunk_age': 50.0,
    'give_up_age': 100.0}


@pytest.fixture
def child(setup, reader, tmp_path):
    """The process, with the reader here, and the file that it writes to."""
    output = tmp_path / 'output'
    environment = {'ROS_DOMAIN_ID': str(setup.context.get_domain_id()), 'OMP_NUM_THREADS': '1'}
    words = [word for name, value in PARAMETERS.items() for word in ('-p', f'{name}:={value}')]
    with output.open('w') as file:
        process = subprocess.Popen(
            [sys.executable, '-m', 'cosmos3_ros.ros.process', '--ros-args', *words],
            stdout=file, stderr=subprocess.STDOUT, env=os.environ | environment)
    yield process, output
    if process.poll() is None:
        process.kill()
        process.wait()


def test_video_and_chunks_go_on_together_and_a_signal_ends_both(setup, reader, child):
    process, output = child
    reader.meet()
    setup.cell.say('pick up the cup')
    wait_for(lambda: len(setup.cell.chunks) > 3, 120)
    before = len(setup.cell.chunks)
    goal = reader.send(frames=61, camera='wrist')
    assert goal.ended(120)[1].outcome == Outcome.SUCCEEDED
    assert reader.video(goal.ended()[1].session, 61).shape == (61, 32, 32, 3)
    wait_for(lambda: len(setup.cell.chunks) > before)

    running = reader.send(frames=0)
    wait_for(lambda: reader.frames[-1].session != goal.ended()[1].session, 60)
    count = len(setup.cell.chunks)
    wait_for(lambda: len(setup.cell.chunks) > count + 3, 60)    # while frames are made
    assert not running.done
    # a request that is dropped leaves a gap
    sequences = [chunk.sequence for chunk in setup.cell.chunks]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))

    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert 'Traceback' not in output.read_text() and 'exception' not in output.read_text()
