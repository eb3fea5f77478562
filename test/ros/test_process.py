# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The process as it runs on a robot, with a tiny random model, met over ROS only."""
from concurrent.futures import ThreadPoolExecutor
import contextlib
import os
import random
import signal
import subprocess
import sys
import time

from cosmos3_ros.action import Imagine, Reason
from cosmos3_ros.msg import Question
import pytest
from rclpy.context import Context

from action_client import ActionClient
from waiting import wait_for

# A test machine may need seconds for a chunk.
PARAMETERS = {
    'checkpoint': 'random:tiny', 'max_camera_age': 5.0, 'max_joint_age': 5.0,
    'max_reply_age': 50.0, 'max_chunk_age': 50.0, 'give_up_age': 100.0, 'on_excess': 'limit',
    'step_jump': 0.01, 'allow_motion': 'true'}
SIGNALS = signal.SIGINT, signal.SIGTERM
LONGEST_END = 2.0       # s from a signal to the end of the process, which the node promises
# The process, with something in its start that does not end.
STUCK = """
import time
from cosmos3_ros.engine import library
from cosmos3_ros.ros import memory, process

def stuck(*_):
    print('stuck', flush=True)
    time.sleep(60)

def stuck_job(*_):
    stuck()
    yield

{place}
process.main()
"""


def arguments(*words, **parameters):
    pairs = (f'{name}:={value}' for name, value in (PARAMETERS | parameters).items())
    return ['--ros-args', *words, *(word for pair in pairs for word in ('-p', pair))]


@contextlib.contextmanager
def started(domain, output, program=('-m', 'cosmos3_ros.ros.process'), **parameters):
    """The process in a domain, writing to a file."""
    environment = {'ROS_DOMAIN_ID': str(domain), 'OMP_NUM_THREADS': '1'}
    with output.open('w') as file:
        process = subprocess.Popen(
            [sys.executable, *program, *arguments(**parameters)],
            stdout=file, stderr=subprocess.STDOUT, env=os.environ | environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def child(setup, tmp_path):
    """The process in the domain of the fake cell, and the file that it writes to."""
    output = tmp_path / 'output'
    with started(setup.context.get_domain_id(), output) as process:
        yield process, output


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


class Work:
    """A goal that goes on until somebody ends it; `parts`: its feedback."""

    def __init__(self, node, kind, name, goal):
        self.parts = []
        self._node, self._client = node, ActionClient(node, kind, name)
        wait_for(self._client.server_is_ready, 120)
        handle = self._answer(self._client.send_goal_async, goal, self.parts.append)
        self._ended = self._call(handle.get_result_async)

    @property
    def goes_on(self):
        return bool(self.parts) and not self._ended.done()

    def forget(self):
        self._client.destroy()          # it would keep its context alive

    def _answer(self, *call):
        future = self._call(*call)
        wait_for(future.done, 60)
        return future.result()

    def _call(self, function, *arguments):
        """Call on the executor's thread, where no answer can come before it is waited for."""
        task = self._node.executor.create_task(function, *arguments)
        wait_for(task.done)
        return task.result()


@contextlib.contextmanager
def at_work(setup):
    """Chunks, a video and an answer are under way in the process that this cell meets."""
    node = setup.cell.node
    setup.cell.say('pick up the cup')
    wait_for(lambda: setup.cell.chunks, 120)
    works = [
        Work(node, Imagine, 'world_model/imagine',
             Imagine.Goal(prompt='a cup falls', width=32, height=32, overlap=-1, history=-1,
                          anchor=-1)),
        Work(node, Reason, 'reasoner/reason',
             Reason.Goal(question=Question(text='What is there?', max_tokens=3500)))]
    count = len(setup.cell.chunks)
    wait_for(lambda: len(setup.cell.chunks) > count and all(work.parts for work in works), 60)
    yield works
    for work in works:
        work.forget()


def kill(kind, number, domain, output, pause):
    """Seconds in which a process at work ended, and what was wrong with its end."""
    context = Context()
    context.init(args=[], domain_id=domain)
    setup = kind(context)
    try:
        with started(domain, output, policy_checkpoint='random:tiny-droid') as process, (
                at_work(setup)) as works:
            time.sleep(pause)
            wrong = [] if all(work.goes_on for work in works) else ['work had ended before']
            begin = time.monotonic()
            process.send_signal(number)
            code = process.wait(30)
            seconds = time.monotonic() - begin
    finally:
        setup.close()
    text = output.read_text()
    wrong += [word for word in ('Traceback', 'exception') if word in text]
    if code:
        wrong.append(f'exit code {code}')
    if seconds > LONGEST_END:
        wrong.append(f'{seconds:.2f} s')
    return seconds, [f'{number.name} after {pause:.2f} s: {", ".join(wrong)}\n{text}'] * bool(wrong)


def test_killed_in_mid_work_it_ends_in_time_with_exit_code_0(setup, request, tmp_path):
    """Two at a time, each in a domain of its own: one starts while the other is killed."""
    count, draw = request.config.getoption('kills'), random.Random()
    pauses = [draw.random() for _ in range(count)]
    domain = setup.context.get_domain_id()

    def lane(first):
        return [kill(type(setup), SIGNALS[i // 2 % 2], domain + first, tmp_path / str(i),
                     pauses[i]) for i in range(first, count, 2)]

    setup.cell.close()
    with ThreadPoolExecutor(2) as lanes:
        ends = [end for ends in lanes.map(lane, (0, 1)) for end in ends]
    print(f'{len(ends)} killed, the slowest ended after {max(s for s, _ in ends):.2f} s')
    assert not [text for _, wrong in ends for text in wrong]


@pytest.mark.parametrize('number', SIGNALS)
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


@pytest.mark.parametrize('place', ['memory.open_checkpoint = stuck',    # a download, for one
                                   'library.loading = stuck_job'])      # a compilation, for one
def test_start_that_hangs_does_not_hold_up_the_end(setup, tmp_path, place):
    output = tmp_path / 'output'
    with started(setup.context.get_domain_id(), output,
                 ('-c', STUCK.format(place=place))) as process:
        wait_for(lambda: 'stuck' in output.read_text(), 120)
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert time.monotonic() - begin < LONGEST_END
    assert 'Traceback' not in output.read_text()


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
