# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""An executor for subscriptions that only store what came."""
from __future__ import annotations

import threading

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

WAKE = 0.1      # s between looks whether to end


class Inputs:
    """A helper node whose callbacks run on a thread of their own.

    rclpy builds an executor's wait set anew for every message. Hundreds of messages a second
    are cheap in a set of a few subscriptions, and cost half a core in that of a node with timers,
    services and an action.
    """

    def __init__(self, owner: Node):
        """The helper has the owner's namespace and context, and its name with `_inputs`.

        Nothing is remapped for it: it is given topics that the owner has resolved.
        """
        self.node = Node(
            f'{owner.get_name()}_inputs', namespace=owner.get_namespace(), context=owner.context,
            start_parameter_services=False, enable_rosout=False, use_global_arguments=False)
        self._executor = SingleThreadedExecutor(context=owner.context)
        self._executor.add_node(self.node)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._spin, name='inputs', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the subscriptions and the thread; to be called from another one."""
        self._closing.set()
        self._thread.join()
        self._executor.shutdown()
        self.node.destroy_node()

    def _spin(self) -> None:
        while not self._closing.is_set() and self.node.context.ok():
            self._executor.spin_once(timeout_sec=WAKE)
