# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Services whose response comes later than their callback returns."""
from __future__ import annotations

from concurrent.futures import Future
import threading
from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.service import Service


def answer_later(service: Service) -> None:
    """Let a service's callback return a Future, whose result is sent when it comes.

    rclpy sends what a callback returns; until then the callback holds one of the executor's
    threads, or, as a coroutine, is polled by the executor without pause. Here neither happens:
    the future keeps the request's header, and whoever sets its result sends the response.
    """
    send, lock = service.send_response, threading.Lock()

    def send_later(response: Future[Any], header: Any) -> None:
        response.add_done_callback(lambda done: send_now(done.result(), header))

    def send_now(response: Any, header: Any) -> None:
        try:
            with lock:
                send(response, header)
        except (rclpy_implementation.InvalidHandle, rclpy_implementation.RCLError):
            pass                        # the service or its caller is gone

    service.send_response = send_later
