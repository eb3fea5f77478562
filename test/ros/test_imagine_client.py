# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""cosmos3 imagine: goals sent, clips written, exit codes."""
from array import array
import os
import signal
import threading
import time

import av
from cosmos3_ros.action import Imagine
from cosmos3_ros.msg import RolloutFrame
from cosmos3_ros.srv import CloseSession
import numpy as np
import pytest
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image

from cosmos3_ros.cli import main
from cosmos3_ros.ros.imagine_client import Clip, ranges
from waiting import wait_for

Outcome = Imagine.Result


class FakeWorld(Node):
    """Serves goals as the world model does, with grey frames: frame i has the value 3 i."""

    def __init__(self, context):
        super().__init__('world_model', context=context)
        self.goals, self.closed = [], []
        self.size = (64, 48)            # width, height
        self.lost = set()               # indices that are not published
        self.mute = False               # no feedback comes
        self.outcome, self.message, self.accept = Outcome.SUCCEEDED, '', True
        self.halted = threading.Event()         # frames 0..8 are out, the rest waits for a cancel
        qos = QoSProfile(depth=16)
        self._image = self.create_publisher(Image, '~/image', qos)
        self._frame = self.create_publisher(RolloutFrame, '~/frame', qos)
        self._server = ActionServer(
            self, Imagine, '~/imagine', execute_callback=self._run, goal_callback=self._admit,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
            callback_group=ReentrantCallbackGroup())
        self.create_service(CloseSession, '~/close_session', self._close)

    def destroy_node(self):
        self._server.destroy()
        super().destroy_node()

    def publish(self, index, session, seed, start=1.0, offset=0):
        width, height = self.size
        stamp = round((start + index / 24) * 1e9)
        image = Image(height=height, width=width, encoding='rgb8', step=3 * width,
                      data=array('B', bytes([(3 * index + offset) % 256]) * (3 * width * height)))
        image.header.frame_id = 'imagined'
        image.header.stamp.sec, image.header.stamp.nanosec = divmod(stamp, 10**9)
        self._image.publish(image)
        self._frame.publish(RolloutFrame(header=image.header, index=index, session=session,
                                         seed=seed))

    def _admit(self, _):
        return GoalResponse.ACCEPT if self.accept else GoalResponse.REJECT

    def _run(self, handle):
        goal = handle.request
        self.goals.append(goal)
        result = Imagine.Result(outcome=self.outcome, message=self.message, seed=goal.seed,
                                session=goal.session or 'abc')
        if self.outcome in (Outcome.REFUSED, Outcome.FAILED):
            handle.abort()
            return result
        for index in range(goal.frames or 9):
            if index not in self.lost:
                self.publish(index, 'other', goal.seed, 0.99, 150)      # somebody else's video
                self.publish(index, result.session, goal.seed)
                time.sleep(0.01)
                result.frames += 1
            if index % 4 == 0 and not self.mute:
                handle.publish_feedback(Imagine.Feedback(session=result.session,
                                                         frames=result.frames))
        if goal.frames:
            handle.succeed()
            return result
        self.halted.set()
        wait_for(lambda: handle.is_cancel_requested)
        handle.canceled()
        result.outcome = Outcome.CANCELLED
        return result

    def _close(self, request, response):
        self.closed.append(request.session)
        response.success = True
        return response


@pytest.fixture
def world(setup):
    node = FakeWorld(setup.context)
    setup.spin(node)
    return node


@pytest.fixture
def imagine(setup, monkeypatch, capfd, tmp_path):
    """Run the command; its exit code, what it wrote, and the clip."""
    monkeypatch.setenv('ROS_DOMAIN_ID', str(setup.context.get_domain_id()))
    for name in ('AMENT_PREFIX_PATH', 'FASTRTPS_DEFAULT_PROFILES_FILE'):
        monkeypatch.setenv(name, os.environ.get(name, ''))      # restored afterwards
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    clip = tmp_path / 'clip.mp4'

    def run(*words):
        code = main(['imagine', 'a cup falls', '--timeout', '30', '--out', str(clip), *words])
        return code, ''.join(capfd.readouterr()), clip

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


def decoded(path):
    """Pictures, uint8 [F, H, W, 3], and times (s) of a file."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == 'h264' and stream.codec_context.pix_fmt == 'yuv420p'
        frames = list(container.decode(stream))
    return np.stack([frame.to_ndarray(format='rgb24') for frame in frames]), [
        frame.time for frame in frames]


def test_clip_has_every_frame_of_our_session_in_order_and_in_time(world, imagine):
    code, output, clip = imagine('--frames', '61', '--seed', '7')
    assert code == 0 and '61 frames' in output and 'missing' not in output
    pictures, times = decoded(clip)
    assert pictures.shape == (61, 48, 64, 3)
    np.testing.assert_allclose(pictures.mean((1, 2, 3)), 3 * np.arange(61), atol=4)
    np.testing.assert_allclose(times, np.arange(61) / 24, atol=1e-3)
    assert world.closed == ['abc']


@pytest.mark.parametrize('mute', [False, True])
def test_video_of_another_client_with_our_seed_is_not_ours(world, imagine, mute):
    world.mute = mute                   # then the result names the session
    code, output, clip = imagine('--frames', '21', '--seed', '7')
    assert code == 0 and '21 frames' in output and 'missing' not in output
    pictures, times = decoded(clip)
    np.testing.assert_allclose(pictures.mean((1, 2, 3)), 3 * np.arange(21), atol=4)
    np.testing.assert_allclose(times, np.arange(21) / 24, atol=1e-3)


def test_options_reach_the_goal_and_the_rest_is_the_recipe(world, imagine, tmp_path):
    picture = tmp_path / 'start.png'
    picture.write_bytes(b'picture')
    imagine('--frames', '5', '--picture', str(picture), '--negative', 'blur', '--mode', 'chained',
            '--size', '320x192', '--steps', '4', '--guidance', '2.5', '--session', 'xyz')
    goal = world.goals[0]
    assert (goal.prompt, goal.negative_prompt, goal.mode) == ('a cup falls', 'blur', 'chained')
    assert bytes(goal.picture.data) == b'picture' and goal.camera == ''
    assert (goal.width, goal.height, goal.steps, goal.guidance) == (320, 192, 4, 2.5)
    assert (goal.overlap, goal.history, goal.anchor) == (-1, -1, -1)
    assert (goal.window, goal.shift, goal.session) == (0, 0.0, 'xyz') and goal.seed >= 0
    assert world.closed == []           # it is not ours to close


def test_frames_that_were_dropped_are_reported(world, imagine):
    world.lost = {3, 10, 11, 12}
    code, output, clip = imagine('--frames', '21', '--keep')
    assert code == 0 and '4 frames are missing: 3, 10-12' in output
    pictures, times = decoded(clip)
    assert len(pictures) == 17
    assert times[3] == pytest.approx(4 / 24, abs=1e-3)          # the gap is kept in time
    assert world.closed == []


def test_ctrl_c_cancels_and_keeps_what_came(world, imagine):
    def interrupt():
        world.halted.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, output, clip = imagine('--frames', '0')
    thread.join()
    assert code == 0 and 'cancelled, 9 frames' in output and 'Traceback' not in output
    assert len(decoded(clip)[0]) == 9


@pytest.mark.parametrize('outcome, said', [
    (Outcome.REFUSED, 'refused: width is 65'), (Outcome.FAILED, 'failed: width is 65')])
def test_goal_that_is_refused_or_fails_is_one_line_and_code_1(world, imagine, outcome, said):
    world.outcome, world.message = outcome, 'width is 65'
    code, output, clip = imagine()
    assert code == 1 and output.strip() == f'cosmos3 imagine: {said}' and not clip.exists()


def test_rejected_goal_is_one_line_and_code_1(world, imagine):
    world.accept = False
    code, output, _ = imagine()
    assert code == 1 and output.count('\n') == 1 and 'not active' in output


@pytest.mark.parametrize('words, said', [
    (('--timeout', '0.5'), 'nobody serves /world_model/imagine'),
    (('--timeout', '0.5', '--namespace', 'left'), 'nobody serves /left/world_model/imagine'),
    (('--namespace', 'two words'), 'namespace'),
    (('--picture', '/none.png'), '/none.png: No such file'),
    (('--out', '/none/clip.mp4'), 'there is no folder /none'),
])
def test_what_cannot_work_is_one_line_and_code_1(imagine, words, said):
    code, output, clip = imagine(*words)
    assert code == 1 and output.count('\n') == 1 and said in output and not clip.exists()


@pytest.mark.parametrize('words', [('--frames', '-4'), ('--size', '640'), ('--mode', 'dream'),
                                   ('--camera', 'wrist', '--picture', 'a.png')])
def test_words_that_do_not_fit_are_shown_with_the_usage(imagine, words, capfd):
    with pytest.raises(SystemExit) as stop:
        imagine(*words)
    assert stop.value.code == 2 and 'usage' in capfd.readouterr().err


def test_odd_row_and_column_are_left_out(tmp_path):
    clip = Clip(tmp_path / 'clip.mp4')
    for index in range(3):
        clip.write(np.full((33, 47, 3), 80 * index, np.uint8), index * 10**8)
    clip.close()
    pictures, times = decoded(tmp_path / 'clip.mp4')
    assert pictures.shape == (3, 32, 46, 3) and times == pytest.approx([0, 0.1, 0.2])


def test_ranges():
    assert ranges([]) == '' and ranges([4]) == '4'
    assert ranges([1, 4, 5, 6, 9, 10]) == '1, 4-6, 9-10'
