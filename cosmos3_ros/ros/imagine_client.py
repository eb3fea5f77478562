# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The command `cosmos3 imagine`: one goal for a node that runs, its frames in an mp4 file."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
import contextlib
from fractions import Fraction
from pathlib import Path
import secrets
import signal
import sys
import time
from typing import Any

import av
import numpy as np
import rclpy
from rclpy.action import ActionClient
from rclpy.exceptions import NameValidationException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.validate_namespace import validate_namespace
from sensor_msgs.msg import CompressedImage, Image
from tqdm import tqdm

from cosmos3_ros.action import Imagine
from cosmos3_ros.msg import RolloutFrame
from cosmos3_ros.ros.environment import prepare_environment
from cosmos3_ros.sensing.images import to_rgb
from cosmos3_ros.sensing.streams import nanoseconds
from cosmos3_ros.srv import CloseSession

Outcome = Imagine.Result
DISCOVERY = 0.5         # s for the node to find our subscriptions before it is asked
LAST_FRAMES = 2.0       # s without a frame, then no more are on their way after the result
ANSWER_TIMEOUT = 30.0   # s for the answer to a cancel: a step of the engine on a slow machine
FRAMES_HELD = 64        # frames that wait for their picture, or pictures for their frame
TICKS = 90_000          # time base of the mp4 file (1/s)


class ClientError(RuntimeError):
    """Why there is no video, in one line."""


def imagine(goal: Mapping[str, Any], picture: Path | None, out: Path, keep: bool = False,
            namespace: str = '', timeout: float = 10.0) -> int:
    """Send a goal and write the frames to `out`; returns the exit code.

    `goal`: fields of the Imagine goal that differ from the recipe; `picture`: file of frame 0;
    `keep`: leave a new session open; `timeout`: s to wait for the node. Ctrl-C cancels the goal
    and keeps what came.
    """
    prepare_environment()
    interrupts: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: interrupts.append(number))
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        validate_namespace('/' + namespace.lstrip('/'))
        with contextlib.closing(Client(namespace, interrupts)) as client:
            client.run(_message(goal, picture), out, keep, timeout)
    except (ClientError, NameValidationException) as error:
        print(f'cosmos3 imagine: {str(error).splitlines()[0]}', file=sys.stderr)
        return 1
    finally:
        rclpy.try_shutdown()
    return 0


def _message(fields: Mapping[str, Any], picture: Path | None) -> Imagine.Goal:
    """The goal; what is not given takes the recipe's default. The seed is drawn here."""
    defaults = {'overlap': -1, 'history': -1, 'anchor': -1, 'seed': secrets.randbits(31)}
    goal = Imagine.Goal(**(defaults | dict(fields)))
    if picture is not None:
        try:
            goal.picture = CompressedImage(data=picture.read_bytes())
        except OSError as error:
            raise ClientError(f'picture {picture}: {error.strerror}') from error
    return goal


class Client:
    """Follows one goal: matches pictures with frames, writes and counts them."""

    def __init__(self, namespace: str, interrupts: list[int]):
        self._node = Node(f'imagine_{secrets.token_hex(3)}', namespace=namespace)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._interrupts = interrupts
        self._session = ''              # '': new, and not named yet
        self._pictures: dict[tuple[int, str], Image] = {}
        self._frames: dict[tuple[int, str], RolloutFrame] = {}
        self._indices: list[int] = []
        self._clip: Clip | None = None
        self._bar: tqdm | None = None
        self._actions = ActionClient(self._node, Imagine, 'world_model/imagine')
        qos = QoSProfile(depth=FRAMES_HELD)     # reliable: the raw pictures, as they were made
        self._subscriptions = [
            self._node.create_subscription(Image, 'world_model/image', self._on_picture, qos),
            self._node.create_subscription(RolloutFrame, 'world_model/frame', self._on_frame, qos)]

    def close(self) -> None:
        """Close the file and the node."""
        if self._clip is not None:
            self._clip.close()
        self._executor.shutdown()
        self._actions.destroy()
        self._node.destroy_node()

    def run(self, goal: Imagine.Goal, out: Path, keep: bool, timeout: float) -> None:
        """Send the goal and follow it to its end. Raises ClientError."""
        self._session = goal.session
        if not out.parent.is_dir():
            raise ClientError(f'{out}: there is no folder {out.parent}')
        self._clip = Clip(out)
        self._connect(timeout)
        if self._interrupts:
            print('cancelled, no frames')
            return
        with tqdm(total=goal.frames or None, unit='frame', disable=None) as self._bar:
            handle = self._send(goal, timeout)
            result = self._follow(handle)
            self._adopt(result.session)     # feedback may have been lost
            self._wait_for_last(result.frames)
        self._clip.close()
        if result.session and not (goal.session or keep):
            self._close_session(result.session)
        self._report(result, goal, out)

    def _connect(self, timeout: float) -> None:
        def ready() -> bool:
            return bool(self._interrupts) or self._actions.server_is_ready() and all(
                topic.get_publisher_count() for topic in self._subscriptions)

        name = self._node.resolve_topic_name('world_model/imagine')
        if not self._spin(ready, timeout):
            raise ClientError(f'nobody serves {name} after {timeout:.0f} s: start the nodes with '
                              'cosmos3 run, and look at the namespace and ROS_DOMAIN_ID')
        self._spin(lambda: bool(self._interrupts), DISCOVERY)

    def _send(self, goal: Imagine.Goal, timeout: float):
        future = self._actions.send_goal_async(goal, feedback_callback=self._on_feedback)
        if not self._spin(future.done, timeout):
            raise ClientError(f'the goal was not answered within {timeout:.0f} s')
        if not future.result().accepted:
            raise ClientError('the goal was rejected: the node world_model is not active, its log '
                              'says why')
        return future.result()

    def _follow(self, handle) -> Imagine.Result:
        """Wait for the result; the first interrupt cancels the goal, the next one gives up."""
        future, answer_due, gone = handle.get_result_async(), None, 0.0
        while not future.done():
            self._executor.spin_once(timeout_sec=0.05)
            now = time.monotonic()
            if self._interrupts and answer_due is None:
                handle.cancel_goal_async()
                answer_due = now + ANSWER_TIMEOUT
            if len(self._interrupts) > 1 or answer_due is not None and now > answer_due:
                raise ClientError('the cancelled goal has not ended; what came is kept')
            gone = now if self._actions.server_is_ready() or not gone else gone
            if now - gone > LAST_FRAMES:
                raise ClientError('the node world_model is gone; what came is kept')
        return future.result().result

    def _wait_for_last(self, count: int) -> None:
        came = -1
        while came < len(self._indices) < count:
            came = len(self._indices)
            self._spin(lambda came=came: len(self._indices) > came, LAST_FRAMES)

    def _close_session(self, name: str) -> None:
        client = self._node.create_client(CloseSession, 'world_model/close_session')
        if self._spin(client.service_is_ready, LAST_FRAMES):
            future = client.call_async(CloseSession.Request(session=name))
            self._spin(future.done, LAST_FRAMES)

    def _spin(self, condition, seconds: float) -> bool:
        """Serve callbacks until a condition holds; False when it does not in time."""
        until = time.monotonic() + seconds
        while not (met := condition()) and time.monotonic() < until:
            self._executor.spin_once(timeout_sec=0.05)
        return met

    # Frames

    def _on_frame(self, frame: RolloutFrame) -> None:
        if self._session in ('', frame.session):    # '': held until we know whose it is
            self._frames[_key(frame.header)] = frame
            self._match()

    def _on_picture(self, picture: Image) -> None:
        self._pictures[_key(picture.header)] = picture
        self._match()

    def _on_feedback(self, message) -> None:
        feedback = message.feedback
        self._adopt(feedback.session)
        self._bar.set_postfix_str(f'{feedback.frames_per_second:.1f} frames/s, first after '
                                  f'{feedback.time_to_first_frame:.2f} s')

    def _adopt(self, session: str) -> None:
        """Learn the session of the goal; frames of others that were held are dropped."""
        if not self._session:
            self._session = session
            self._frames = {key: frame for key, frame in self._frames.items()
                            if frame.session == session}
            self._match()

    def _match(self) -> None:
        """Write frames of our session whose picture is here, in order."""
        for key in [key for key in self._frames if self._session and key in self._pictures]:
            frame, picture = self._frames.pop(key), self._pictures.pop(key)
            self._clip.write(to_rgb(picture), nanoseconds(frame.header.stamp))
            self._indices.append(frame.index)
            self._bar.update()
        for waiting in (self._frames, self._pictures):
            while len(waiting) > FRAMES_HELD:
                del waiting[next(iter(waiting))]

    def _report(self, result: Imagine.Result, goal: Imagine.Goal, out: Path) -> None:
        if result.outcome in (Outcome.REFUSED, Outcome.FAILED):
            kind = 'refused' if result.outcome == Outcome.REFUSED else 'failed'
            raise ClientError(f'{kind}: {result.message}')
        cancelled = 'cancelled, ' if result.outcome == Outcome.CANCELLED else ''
        if not self._indices:
            print(f'{cancelled}no frames')
            return
        print(f'{cancelled}{len(self._indices)} frames in {out}: first after '
              f'{result.time_to_first_frame:.2f} s, {result.frames_per_second:.1f} frames/s; '
              f'session {result.session}, seed {result.seed}')
        first = min(self._indices) if goal.session else 0
        missing = sorted({*range(first, max(self._indices) + 1)} - {*self._indices})
        if missing:
            print(f'{len(missing)} frames are missing: {ranges(missing)}')


class Clip:
    """An H.264 file, yuv420p; a frame lasts until the next one's time. Opened by its first."""

    def __init__(self, path: Path):
        self._path = path
        self._container = None
        self._start = 0

    def write(self, picture: np.ndarray, time: int) -> None:
        """Add a frame, uint8 [H, W, 3] RGB; an odd row or column is left out. `time` in ns."""
        height, width = (size // 2 * 2 for size in picture.shape[:2])
        if self._container is None:
            self._open(width, height)
            self._start = time
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture[:height, :width]),
                                           format='rgb24')
        frame.time_base = self._stream.codec_context.time_base
        frame.pts = round((time - self._start) * TICKS / 1e9)
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Finish the file, if there is one."""
        if self._container is not None:
            self._container.mux(self._stream.encode(None))
            self._container.close()
            self._container = None

    def _open(self, width: int, height: int) -> None:
        try:
            self._container = av.open(self._path, 'w', format='mp4')
        except OSError as error:
            raise ClientError(f'{self._path}: {error.strerror}') from error
        self._stream = stream = self._container.add_stream('libx264', rate=24)
        stream.width, stream.height, stream.pix_fmt = width, height, 'yuv420p'
        stream.codec_context.time_base = Fraction(1, TICKS)
        stream.options = {'preset': 'veryfast'}     # it has to keep up with the node


def ranges(numbers: Iterable[int]) -> str:
    """Rising numbers as text: 1, 4-6."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ', '.join('-'.join(map(str, part)) for part in parts)


def _key(header) -> tuple[int, str]:
    return nanoseconds(header.stamp), header.frame_id
