# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What rclpy's managed nodes lack."""
from __future__ import annotations

from concurrent.futures import CancelledError

from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNodeMixin

from cosmos3_ros.engine.engine import EngineClosed


def describe(error: BaseException) -> str:
    """Return why a transition failed, in one line."""
    if isinstance(error, (CancelledError, EngineClosed)):
        return 'cancelled, the process is stopping'
    return str(error) if isinstance(error, ValueError) else f'{type(error).__name__}: {error}'


def refuse_wrong_transitions(node: LifecycleNodeMixin) -> None:
    """Answer a transition that the present state lacks with success false and a log line.

    rclpy lets the exception reach the executor and leaves the caller without an answer.
    """
    service = node._service_change_state
    change_state = service.callback

    def answer(request, response):
        try:
            return change_state(request, response)
        except rclpy_implementation.RCLError:
            state = node._state_machine.current_state[1]
            wanted = request.transition.label or request.transition.id
            node.get_logger().warning(f'change_state: transition {wanted} refused, the node is '
                                      f'{state}')
            response.success = False
            return response

    service.callback = answer
