# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The policy's chunks, for videos that follow them."""
from __future__ import annotations

from collections.abc import Iterator
import threading
import time

from rclpy.node import Node

from cosmos3_ros.msg import ActionChunk

TIMEOUT = 5.0           # s without a chunk, then a goal that follows the policy fails
PERIOD = 0.05           # s between looks at whether the goal was cancelled


class Chunks:
    """The newest chunk; every follower sees it."""

    def __init__(self, node: Node):
        self._topic = node.get_parameter('action_chunk_topic').value
        self._changed = threading.Condition()
        self._newest: ActionChunk | None = None
        self._count = 0
        node.create_subscription(ActionChunk, self._topic, self._put, 1)

    def follow(self, stopped: threading.Event) -> Iterator[ActionChunk]:
        """Chunks that come from now on, the newest when there are several, until `stopped`.

        Raises RuntimeError when none comes.
        """
        seen = self._count
        while self._wait(seen, stopped):
            with self._changed:
                seen, chunk = self._count, self._newest
            yield chunk

    def _put(self, chunk: ActionChunk) -> None:
        with self._changed:
            self._newest = chunk
            self._count += 1
            self._changed.notify_all()

    def _wait(self, seen: int, stopped: threading.Event) -> bool:
        """Wait for another chunk; False when stopped."""
        until = time.monotonic() + TIMEOUT
        while not stopped.is_set():
            with self._changed:
                if self._changed.wait_for(lambda: self._count != seen, PERIOD):
                    return True
            if time.monotonic() > until:
                raise RuntimeError(f'no chunk on {self._topic} for {TIMEOUT:.0f} s: activate the '
                                   'policy and give it an instruction')
        return False
