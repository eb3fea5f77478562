# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The command `cosmos3 ask`: one question for a node that runs, its answer as it is written."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import contextlib
from pathlib import Path
import secrets
import signal
import sys
import time
from typing import Any

import rclpy
from rclpy.action import ActionClient
from rclpy.exceptions import NameValidationException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.validate_namespace import validate_namespace
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Header

from cosmos3_ros.action import Reason
from cosmos3_ros.msg import Answer, Question
from cosmos3_ros.ros.environment import prepare_environment

FEEDBACK_DEPTH = 1000   # deltas that wait for us
CANCEL_TIMEOUT = 30.0   # s for the answer to a cancel: a step of the engine on a slow machine
DISCOVERY = 0.5         # s for the node to find us before it is asked: it can lag behind our view
GONE_TIMEOUT = 2.0      # s without the node before it counts as gone
ENDS = {Answer.STOP: 'ended', Answer.LENGTH: 'cut off at the token limit',
        Answer.CANCELLED: 'cancelled', Answer.ERROR: 'failed'}


class ClientError(RuntimeError):
    """Why there is no answer, in one line."""


def ask(question: Mapping[str, Any], pictures: Sequence[Path], namespace: str = '',
        timeout: float = 10.0) -> int:
    """Ask and write the answer to stdout as it comes, all else to stderr; the exit code.

    `question`: fields of the Question message; `pictures`: files that are sent along;
    `timeout`: s to wait for the node. Ctrl-C cancels. 0 for a whole answer, otherwise 1.
    """
    prepare_environment()
    interrupts: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: interrupts.append(number))
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        validate_namespace('/' + namespace.lstrip('/'))
        goal = Reason.Goal(question=_message(question, pictures))
        with contextlib.closing(Client(namespace, interrupts)) as client:
            answer = client.run(goal, timeout)
    except (ClientError, NameValidationException) as error:
        print(f'cosmos3 ask: {str(error).splitlines()[0]}', file=sys.stderr)
        return 1
    finally:
        rclpy.try_shutdown()
    return 0 if answer.finish_reason in (Answer.STOP, Answer.LENGTH) else 1


def _message(fields: Mapping[str, Any], pictures: Sequence[Path]) -> Question:
    question = Question(**({'seed': -1} | dict(fields)))
    for path in pictures:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ClientError(f'picture {path}: {error.strerror}') from error
        question.pictures.append(CompressedImage(header=Header(frame_id=path.name), data=data))
    return question


class Client:
    """Follows one question and writes what comes."""

    def __init__(self, namespace: str, interrupts: list[int]):
        self._node = Node(f'ask_{secrets.token_hex(3)}', namespace=namespace)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._interrupts = interrupts
        self._written = {'text': '', 'thinking': ''}
        self._action = ActionClient(self._node, Reason, 'reasoner/reason',
                                    feedback_sub_qos_profile=QoSProfile(depth=FEEDBACK_DEPTH))

    def close(self) -> None:
        """Leave the network."""
        self._executor.shutdown()
        self._node.destroy_node()

    def run(self, goal: Reason.Goal, timeout: float) -> Answer:
        """Send the goal and follow it to its end. Raises ClientError."""
        name = self._node.resolve_topic_name('reasoner/reason')
        self._wait(self._action.server_is_ready, timeout,
                   f'nobody serves {name} after {timeout:.0f} s: start the nodes with cosmos3 run, '
                   'and look at the namespace and ROS_DOMAIN_ID')
        found = time.monotonic()
        self._wait(lambda: time.monotonic() - found > DISCOVERY, timeout, '')
        sent = self._action.send_goal_async(goal, feedback_callback=self._on_feedback)
        self._wait(sent.done, timeout, f'the goal was not answered within {timeout:.0f} s')
        if not sent.result().accepted:
            raise ClientError('the goal was rejected: the node reasoner is not active, its log '
                              'says why')
        answer = self._follow(sent.result())
        self._finish(answer)
        return answer

    def _wait(self, condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
        until = time.monotonic() + seconds
        while not condition():
            if self._interrupts:
                raise ClientError('cancelled')
            if time.monotonic() > until:
                raise ClientError(otherwise)
            self._executor.spin_once(timeout_sec=0.05)

    def _follow(self, handle: Any) -> Answer:
        """Wait for the result; the first interrupt cancels the goal, the next one gives up."""
        future, due, seen = handle.get_result_async(), None, time.monotonic()
        while not future.done():
            self._executor.spin_once(timeout_sec=0.05)
            now = time.monotonic()
            if self._interrupts and due is None:
                handle.cancel_goal_async()
                due = now + CANCEL_TIMEOUT
            if len(self._interrupts) > 1 or due is not None and now > due:
                raise ClientError('the cancelled question has not ended')
            seen = now if self._action.server_is_ready() else seen
            if now - seen > GONE_TIMEOUT:
                raise ClientError('the node reasoner is gone')
        return future.result().result.answer

    def _on_feedback(self, message: Any) -> None:
        feedback = message.feedback
        self._write('thinking' if feedback.thinking else 'text', feedback.delta)

    def _write(self, part: str, text: str) -> None:
        self._written[part] += text
        print(text, end='', flush=True, file=sys.stdout if part == 'text' else sys.stderr)

    def _finish(self, answer: Answer) -> None:
        """Write what did not come as feedback, and the figures."""
        for part, written in self._written.items():
            whole = getattr(answer, part)
            if whole.startswith(written):
                self._write(part, whole[len(written):])
            else:                       # a delta was lost on its way
                self._write(part, f'\n{whole}')
        if self._written['text']:
            print(flush=True)
        if answer.error and answer.finish_reason == Answer.ERROR:
            raise ClientError(answer.error)
        print(f'{ENDS[answer.finish_reason]}: {answer.completion_tokens} tokens, first after '
              f'{answer.time_to_first_token:.2f} s, {answer.tokens_per_second:.1f} tokens/s; saw '
              f'{", ".join(answer.picture_names) or "no picture"}', file=sys.stderr)
