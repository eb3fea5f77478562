# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""An action client that may be called beside the thread that spins its node."""
import threading

import rclpy.action


class ActionClient(rclpy.action.ActionClient):
    """rclpy's own drops an answer that is read before the call that asked has noted its number.

    It also drops feedback that is read after the result of its goal; this one delivers it.
    """

    def __init__(self, *arguments, **options):
        self._asking = threading.RLock()
        super().__init__(*arguments, **options)

    def send_goal_async(self, *arguments, **options):
        with self._asking:
            return super().send_goal_async(*arguments, **options)

    def _get_result_async(self, *arguments):
        with self._asking:
            return super()._get_result_async(*arguments)

    def _cancel_goal_async(self, *arguments):
        with self._asking:
            return super()._cancel_goal_async(*arguments)

    def take_data(self):
        with self._asking:
            return super().take_data()

    def _remove_pending_result_request(self, future):
        self._remove_pending_request(future, self._pending_result_requests)
