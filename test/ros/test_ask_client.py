# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The command `cosmos3 ask` against a node with the tiny model."""
import os
import signal
import subprocess
import sys

import numpy as np
from PIL import Image
import pytest
from rclpy.parameter import Parameter

from waiting import wait_for


@pytest.fixture
def node(setup, tiny):
    from concurrent.futures import Future

    from cosmos3_ros.ros.reasoner.node import ReasonerNode
    ready = Future()
    ready.set_result(tiny)
    setup.library.acquire = lambda reference, dtype: ready
    node = ReasonerNode(setup.engine, setup.library, context=setup.context, parameter_overrides=[
        Parameter('checkpoint', value='tiny'), Parameter('max_camera_age', value=5.0)])
    setup.spin(node)
    assert node.trigger_configure().name == 'SUCCESS'
    assert node.trigger_activate().name == 'SUCCESS'
    return node


@pytest.fixture
def command(setup):
    """Start the command in the domain of the node."""
    started = []

    def start(*words):
        environment = os.environ | {'ROS_DOMAIN_ID': str(setup.context.get_domain_id())}
        environment.pop('_ROS_WHEELS_BOOTSTRAP_COMPLETE', None)
        process = subprocess.Popen(
            [sys.executable, '-m', 'cosmos3_ros.cli', 'ask', *words], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(process)
        return process

    def run(*words):
        process = start(*words)
        out, err = process.communicate(timeout=60)
        return process.returncode, out.decode(), err.decode()   # neither may be cut UTF-8

    run.start = start
    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_answer_goes_to_stdout_and_the_figures_to_stderr(setup, node, command, tmp_path):
    file = tmp_path / 'shelf.png'
    Image.fromarray(np.full((40, 60, 3), 99, np.uint8)).save(file)
    code, out, err = command('What is on the table?', '--camera', 'exterior_left',
                             '--picture', str(file), '--max-tokens', '12')
    assert code == 0 and out.strip()
    assert ': 12 tokens, first after' in err and 'saw exterior_left, shelf.png' in err
    code, out, err = command('Why?', '--thinking', '--max-tokens', '9', '--temperature', '0.8')
    assert code == 0 and not out.strip()                    # it thought all the time
    assert len(err.partition(': 9 tokens')[0]) > len('cut off at the token limit')


def test_what_cannot_be_answered_is_one_line_and_exit_code_1(node, command, tmp_path):
    for words, said in (
            (['What?', '--camera', 'left'], "camera 'left' is unknown"),
            ([''], 'text: empty'),
            (['What?', '--picture', f'{tmp_path}/none.png'], 'No such file'),
            (['What?', '--namespace', 'other', '--timeout', '1'],
             'nobody serves /other/reasoner/reason')):
        code, out, err = command(*words)
        assert code == 1 and not out.strip()
        lines = [line for line in err.splitlines() if line]
        assert len(lines) == 1 and lines[0].startswith('cosmos3 ask: ') and said in lines[0]


def test_interrupt_cancels_the_question(node, command):
    process = command.start('Tell me all.', '--max-tokens', '3500')
    wait_for(lambda: node._server.open)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1 and b'cancelled: ' in err
    wait_for(lambda: not node._server.open)
