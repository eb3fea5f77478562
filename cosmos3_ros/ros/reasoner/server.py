# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The service ask and the action reason: each question on a thread of its own."""
from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
import contextlib
import threading
import time

from action_msgs.msg import GoalStatus
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import GoalEvent, RCLError, ServerGoalHandle
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image

from cosmos3_ros import msg
from cosmos3_ros.action import Reason
from cosmos3_ros.ros.reasoner import answers
from cosmos3_ros.ros.reasoner.asking import CANCELLED, DEACTIVATED, Asking, Prepare
from cosmos3_ros.ros.reasoner.counts import Counts
from cosmos3_ros.ros.services import answer_later
from cosmos3_ros.srv import Ask
from cosmos3_ros.tasks.question import Delta
from cosmos3_ros.tasks.reason import Reasoner

OPEN_LIMIT = 64             # questions; each holds a thread and its pictures
FEEDBACK_DEPTH = 1000       # deltas: all goals share the topic, and readers are slow at times
ANNOTATED_DEPTH = 16        # pictures of a few questions that end together
CANCEL_TIMEOUT = 1.0        # s for rclpy to note a cancel that it has passed on


class QuestionServer:
    """Takes questions while it has a `reasoner` and is `active`.

    Neither callbacks nor the engine wait for an answer: a service's response is sent when it is
    there, and execution of a goal is only scheduled when it has ended.
    """

    def __init__(self, node: Node, prepare: Prepare, group: CallbackGroup):
        self.active = False
        self.reasoner: Reasoner | None = None
        self.counts = Counts()
        self._node, self._prepare = node, prepare
        self._lock = threading.Lock()
        self._open: dict[Asking, threading.Thread] = {}
        self._goals: dict[bytes, Asking] = {}
        self._early: set[bytes] = set()     # goals that were cancelled before they began
        self._annotated = node.create_publisher(Image, '~/annotated', QoSProfile(
            depth=ANNOTATED_DEPTH))
        answer_later(node.create_service(
            Ask, '~/ask', self._ask, callback_group=group,
            qos_profile=QoSProfile(depth=OPEN_LIMIT)))      # rclpy's ten lose requests of a burst
        self._server = ActionServer(
            node, Reason, '~/reason', execute_callback=lambda _: Reason.Result(),
            goal_callback=self._admit, handle_accepted_callback=self._begin,
            cancel_callback=self._cancel, callback_group=group,
            feedback_pub_qos_profile=QoSProfile(depth=FEEDBACK_DEPTH),
            goal_service_qos_profile=QoSProfile(depth=OPEN_LIMIT))

    @property
    def open(self) -> int:
        """Questions without an answer yet."""
        return len(self._open)

    def stop(self) -> None:
        """Take no more questions and cancel those that are open."""
        self.active = False
        with self._lock:
            asked = list(self._open)
        for asking in asked:
            asking.cancel(DEACTIVATED)

    def wait(self, timeout: float) -> bool:
        """Wait for the open questions to end; False if one has not after `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._lock:
            threads = list(self._open.values())
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def close(self) -> None:
        """Destroy the action, which the node does not destroy with itself."""
        self._server.destroy()

    # Service

    def _ask(self, request: Ask.Request, _: Ask.Response) -> Future[Ask.Response]:
        response: Future[Ask.Response] = Future()
        self._start(Asking(request.question), request.question, lambda delta: None,
                    lambda answer: response.set_result(Ask.Response(answer=answer)))
        return response

    # Action

    def _admit(self, _: Reason.Goal) -> GoalResponse:
        if self.active:
            return GoalResponse.ACCEPT
        self._node.get_logger().warning(
            'reason: goal rejected, the node is not active: activate it')
        return GoalResponse.REJECT

    def _begin(self, handle: ServerGoalHandle) -> None:
        key, asking = bytes(handle.goal_id.uuid), Asking(handle.request.question)
        with self._lock:
            self._goals[key] = asking
            if key in self._early:
                self._early.remove(key)
                asking.cancel(CANCELLED)
            with contextlib.suppress(RCLError):             # it is cancelled already
                handle._update_state(GoalEvent.EXECUTE)     # execute() would also schedule it

        def report(delta: Delta) -> None:
            handle.publish_feedback(Reason.Feedback(
                delta=delta.text, thinking=delta.thinking, completion_tokens=delta.tokens))

        self._start(asking, handle.request.question, report,
                    lambda answer: self._end(handle, asking, answer))

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        key = bytes(handle.goal_id.uuid)
        with self._lock:
            asking = self._goals.get(key)
            if asking is None and handle.status == GoalStatus.STATUS_ACCEPTED:
                self._early.add(key)
        if asking is not None:
            asking.cancel(CANCELLED)
        return CancelResponse.ACCEPT

    def _end(self, handle: ServerGoalHandle, asking: Asking, answer: msg.Answer) -> None:
        by_client = asking.kind == 'cancelled' and _cancel_noted(handle, asking)
        with self._lock:
            del self._goals[bytes(handle.goal_id.uuid)]

        def finish(ended: ServerGoalHandle) -> Reason.Result:
            if by_client:
                ended.canceled()
            elif asking.kind == 'answered':
                ended.succeed()
            else:
                ended.abort()
            return Reason.Result(answer=answer)

        if self._node.executor is not None:             # else nobody is there to be answered
            self._server.notify_execute(handle, finish)

    # Both

    def _start(self, asking: Asking, question: msg.Question, report: Callable[[Delta], None],
               end: Callable[[msg.Answer], None]) -> None:
        """Answer on a new thread, or say at once why not."""
        thread = threading.Thread(target=self._run, args=(asking, question, report, end),
                                  name='question', daemon=True)
        with self._lock:
            refusal = self._refusal()
            if not refusal:
                self._open[asking] = thread
                thread.start()
        if refusal:
            asking.kind = 'refused'
            self._finish(asking, msg.Answer(finish_reason=msg.Answer.ERROR, error=refusal), end)

    def _refusal(self) -> str:
        if not self.active or self.reasoner is None:
            return 'the node is not active: activate it'
        if len(self._open) >= OPEN_LIMIT:
            return f'{OPEN_LIMIT} questions are open already: ask again when one has ended'
        return ''

    def _run(self, asking: Asking, question: msg.Question, report: Callable[[Delta], None],
             end: Callable[[msg.Answer], None]) -> None:
        written = 0

        def count(delta: Delta) -> None:
            nonlocal written
            self.counts.wrote(delta.tokens - written)
            written = delta.tokens
            report(delta)

        answer = asking.run(self._prepare, self.reasoner.submit, count)
        self.counts.wrote(answer.completion_tokens - written)
        try:
            if question.annotate and asking.kind == 'answered':
                for image in answers.annotated(answer, asking.seen):
                    self._annotated.publish(image)
        finally:
            self._finish(asking, answer, end)
            with self._lock:
                del self._open[asking]

    def _finish(self, asking: Asking, answer: msg.Answer,
                end: Callable[[msg.Answer], None]) -> None:
        self.counts.ended(asking.kind, answer)
        if asking.kind in ('refused', 'failed'):
            self._node.get_logger().warning(f'question {asking.kind}: {answer.error}')
        end(answer)


def _cancel_noted(handle: ServerGoalHandle, asking: Asking) -> bool:
    """Whether the client cancelled; rclpy notes it only after it has told us."""
    until = time.monotonic() + CANCEL_TIMEOUT
    while asking.reason == CANCELLED and not handle.is_cancel_requested:
        if time.monotonic() > until:
            break
        time.sleep(0.001)
    return handle.is_cancel_requested
