# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The action imagine: each goal on a thread of its own, from acceptance to result."""
from __future__ import annotations

from concurrent.futures import CancelledError
import contextlib
import secrets
import threading
import time
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import GoalEvent, RCLError, ServerGoalHandle
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from cosmos3_ros.action import Imagine
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.sessions import SessionError, SessionPool
from cosmos3_ros.ros.goals import finish
from cosmos3_ros.ros.world_model.goals import Opened
from cosmos3_ros.ros.world_model.imagination import Imagination, Progress
from cosmos3_ros.ros.world_model.output import Output
from cosmos3_ros.ros.world_model.videos import Videos
from cosmos3_ros.sensing.images import ImageError

Outcome = Imagine.Result
REFUSALS = (ValueError, ImageError)     # a SessionError is a ValueError
CANCELLED, DEACTIVATED = 'cancelled', 'the node was deactivated'
CANCEL_TIMEOUT = 1.0                    # s for rclpy to note a cancel that it has passed on


class ImagineServer:
    """Takes goals while `active`.

    Execution of a goal is only scheduled when it has ended, so that goals do not hold the
    executor's threads.
    """

    def __init__(self, node: Node, engine: Engine, sessions: SessionPool[Opened], videos: Videos,
                 group: CallbackGroup):
        self.active = False
        self.output = Output(node)
        self._node = node
        self._engine, self._sessions, self._videos = engine, sessions, videos
        self._lock = threading.Lock()
        self._running: dict[bytes, tuple[Imagination, threading.Thread]] = {}   # threads started
        self._early: set[bytes] = set()     # cancelled before they began
        self._server = ActionServer(
            node, Imagine, '~/imagine', execute_callback=lambda _: Imagine.Result(),
            goal_callback=self._admit, handle_accepted_callback=self._begin,
            cancel_callback=self._cancel, callback_group=group)

    @property
    def goals(self) -> int:
        """Goals that are being served."""
        return len(self._running)

    def stop(self) -> None:
        """Take no more goals and cancel those that run."""
        self.active = False
        with self._lock:
            running = list(self._running.values())
        for imagination, _ in running:
            imagination.cancel(DEACTIVATED)

    def close(self) -> None:
        """Destroy the action, which the node does not destroy with itself."""
        self._server.destroy()

    def wait(self, timeout: float) -> bool:
        """Wait for the goals to end; False if one has not after `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._lock:
            threads = [thread for _, thread in self._running.values()]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _admit(self, _: Imagine.Goal) -> GoalResponse:
        if self.active:
            return GoalResponse.ACCEPT
        self._node.get_logger().warning(
            'imagine: goal rejected, the node is not active: activate it')
        return GoalResponse.REJECT

    def _begin(self, handle: ServerGoalHandle) -> None:
        imagination = Imagination(self._engine)
        thread = threading.Thread(target=self._run, args=(handle, imagination), name='imagine',
                                  daemon=True)
        key = bytes(handle.goal_id.uuid)
        with self._lock:
            if key in self._early:
                self._early.remove(key)
                imagination.cancel(CANCELLED)
            if not self.active:
                imagination.cancel(DEACTIVATED)
            with contextlib.suppress(RCLError):             # it is cancelled already
                handle._update_state(GoalEvent.EXECUTE)     # execute() would also schedule it
            self._running[key] = imagination, thread
            thread.start()

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        key = bytes(handle.goal_id.uuid)
        with self._lock:
            if key in self._running:
                self._running[key][0].cancel(CANCELLED)
            elif handle.status == GoalStatus.STATUS_ACCEPTED:
                self._early.add(key)
        return CancelResponse.ACCEPT

    def _run(self, handle: ServerGoalHandle, imagination: Imagination) -> None:
        """Serve one goal; it ends exactly once, whatever happens."""
        result = Imagine.Result(outcome=Outcome.FAILED, session=handle.request.session)
        try:
            self._stream(handle, imagination, result)
            result.outcome, result.message = Outcome.SUCCEEDED, f'{result.frames} frames'
        except CancelledError:
            if _cancel_requested(handle, imagination):
                result.outcome = Outcome.CANCELLED
            result.message = imagination.reason or 'the engine was closed'
        except Exception as error:      # out of memory, say: this goal fails, the node goes on
            if isinstance(error, REFUSALS) and not imagination.begun:
                result.outcome, result.message = Outcome.REFUSED, str(error)
            else:
                result.message = f'{type(error).__name__}: {error}'
        if result.outcome in (Outcome.REFUSED, Outcome.FAILED):
            self._node.get_logger().warning(f'imagine: {result.message}')
        with self._lock:
            del self._running[bytes(handle.goal_id.uuid)]
        if self._node.executor is not None:             # else nobody is there to be answered
            self._server.notify_execute(handle, lambda ended: finish(ended, result))

    def _stream(self, handle: ServerGoalHandle, imagination: Imagination,
                result: Imagine.Result) -> None:
        if handle.request.session:
            self._serve(handle, imagination, result)
            return
        name = secrets.token_hex(4)
        self._videos.open(handle.request, name)
        result.session = name
        try:
            self._serve(handle, imagination, result)
        finally:
            if not result.windows:      # nothing to go on with
                result.session = ''
                with contextlib.suppress(SessionError):
                    self._sessions.close(name)

    def _serve(self, handle: ServerGoalHandle, imagination: Imagination,
               result: Imagine.Result) -> None:
        with self._sessions.use(result.session) as opened:
            session = opened.session
            result.seed = session.seed

            def report(progress: Progress) -> None:
                feedback = Imagine.Feedback(session=result.session,
                                            frames_per_second=progress.recent_rate)
                handle.publish_feedback(_fill(feedback, session, progress))

            segments = self._videos.segments(handle.request, opened, imagination.stopped)
            try:
                imagination.run(
                    segments, lambda frame: self.output.publish(frame, opened, result.session),
                    report)
            finally:
                _fill(result, session, imagination.progress)
                result.frames_per_second = imagination.progress.rate


def _fill(message: Any, session: Any, progress: Progress) -> Any:
    message.frames, message.windows = progress.frames, session.windows
    message.time_to_first_frame = progress.first_frame
    return message


def _cancel_requested(handle: ServerGoalHandle, imagination: Imagination) -> bool:
    """Whether the client cancelled; rclpy notes it only after it has told us."""
    until = time.monotonic() + CANCEL_TIMEOUT
    while imagination.reason == CANCELLED and not handle.is_cancel_requested:
        if time.monotonic() > until:
            break
        time.sleep(0.001)
    return handle.is_cancel_requested
