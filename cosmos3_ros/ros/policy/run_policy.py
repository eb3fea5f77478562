# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the policy is told to do: the instruction topic and the action run_policy."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import threading

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import GoalEvent, ServerGoalHandle
from rclpy.callback_groups import CallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from cosmos3_ros.action import RunPolicy
from cosmos3_ros.ros.goals import finish
from cosmos3_ros.ros.messages import to_duration
from cosmos3_ros.sensing.streams import nanoseconds

Outcome = RunPolicy.Result


@dataclass
class Run:
    """A goal that is being served."""

    handle: ServerGoalHandle
    first: int = 0                      # sequence number of its first request
    until: int | None = None            # ns, node clock; known once there is a clock
    chunks: int = 0
    dropped: int = 0


class Instructions:
    """The instruction in force, from whoever spoke last.

    A goal of run_policy takes over from the topic and from older goals; a new text on the topic
    takes over from a goal, and an empty one always does. When a goal ends there is no instruction.
    `changed` is called with the new instruction, the seed that its first chunk should have (-1 for
    any), and the outcome of the goal if one has ended and nobody took over; it returns the
    sequence number of the first request for that instruction.

    Execution of a goal is only scheduled when it has ended: rclpy's executor polls a coroutine
    that awaits something without pause.
    """

    def __init__(self, node: Node, active: Callable[[], bool],
                 changed: Callable[[str, int, int | None], int], group: CallbackGroup):
        self._node = node
        self._active = active
        self._changed = changed
        self._lock = threading.RLock()
        self.text = ''
        self._heard = ''
        self._run: Run | None = None
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        events = SubscriptionEventCallbacks(incompatible_qos=lambda _: node.get_logger().warning(
            '~/instruction: a publisher does not latch and is not heard: publish with durability '
            'transient_local'))
        node.create_subscription(String, '~/instruction', self._hear, latched,
                                 callback_group=group, event_callbacks=events)
        self._server = ActionServer(
            node, RunPolicy, '~/run_policy', execute_callback=lambda _: RunPolicy.Result(),
            goal_callback=self._admit, handle_accepted_callback=self._begin,
            cancel_callback=lambda _: CancelResponse.ACCEPT, callback_group=group)

    def destroy(self) -> None:
        """Destroy the action, which the node does not destroy with itself."""
        self._server.destroy()

    @property
    def running(self) -> bool:
        """Whether a goal is being served."""
        return self._run is not None

    def on_chunk(self, sequence: int, latency: int, in_flight: int) -> None:
        """Report a published chunk to the goal; `latency` in ns."""
        with self._lock:
            if (run := self._run) is None or sequence < run.first:
                return
            run.chunks += 1
            run.handle.publish_feedback(RunPolicy.Feedback(
                sequence=sequence, chunks=run.chunks, dropped=run.dropped, in_flight=in_flight,
                latency=to_duration(latency)))
            if run.chunks == run.handle.request.max_chunks:
                self.end(Outcome.SUCCEEDED, f'{run.chunks} chunks published')

    def on_drop(self, sequence: int | None) -> None:
        """Count an observation that gave no chunk; `sequence` is None if it was not asked about."""
        with self._lock:
            run = self._run
            if run is not None and (sequence is None or sequence >= run.first):
                run.dropped += 1

    def check(self, now: int) -> None:
        """End the goal if it was cancelled or its time is over."""
        with self._lock:
            if (run := self._run) is None:
                return
            timeout = nanoseconds(run.handle.request.timeout)
            if run.until is None and timeout > 0:
                run.until = now + timeout
            if run.handle.is_cancel_requested:
                self.end(Outcome.CANCELLED, 'cancelled by the client')
            elif run.until is not None and now >= run.until:
                self.end(Outcome.TIMEOUT, f'time-out after {run.chunks} chunks')

    def end(self, outcome: int, message: str) -> None:
        """End the goal, if any, and its instruction."""
        with self._lock:
            if self._end(outcome, message):
                self.text = ''
                self._changed('', -1, outcome)

    def _hear(self, message: String) -> None:
        text = message.data.strip()
        with self._lock:
            repeated, self._heard = text == self._heard, text
            if self._run is not None and repeated and text:
                return                  # a publisher that repeats itself, not a new wish
            self._end(Outcome.PREEMPTED, f'a new instruction took over: {text!r}')
            self._set(text)

    def _admit(self, goal: RunPolicy.Goal) -> GoalResponse:
        reason = ''
        if not self._active():
            reason = 'the node is not active: activate it first'
        elif not goal.instruction.strip():
            reason = 'instruction is empty: say what to do'
        if reason:
            self._node.get_logger().warning(f'run_policy: goal rejected, {reason}')
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _begin(self, handle: ServerGoalHandle) -> None:
        goal = handle.request
        with self._lock:
            self._end(Outcome.PREEMPTED, f'a newer goal took over: {goal.instruction!r}')
            self._run = Run(handle)
            if not handle.is_cancel_requested:
                handle._update_state(GoalEvent.EXECUTE)     # execute() would also schedule it
            self._set(goal.instruction.strip(), goal.seed)
            if not self._active():      # since it was admitted
                self.end(Outcome.FAILED, 'the node was stopped')

    def _end(self, outcome: int, message: str) -> bool:
        run, self._run = self._run, None
        if run is None:
            return False
        result = RunPolicy.Result(outcome=outcome, message=message, chunks=run.chunks,
                                  dropped=run.dropped)
        self._node.get_logger().info(f'run_policy: {message}')
        self._server.notify_execute(run.handle, lambda handle: finish(handle, result))
        return True

    def _set(self, text: str, seed: int = -1) -> None:
        changed, self.text = text != self.text, text
        if changed or seed >= 0:
            first = self._changed(text, seed, None)
            if self._run is not None:
                self._run.first = first
