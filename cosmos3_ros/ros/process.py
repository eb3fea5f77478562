# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The one process of a robot: an engine, the models, and the nodes that share them."""
from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from typing import NoReturn

from rcl_interfaces.msg import ParameterDescriptor
import rclpy
from rclpy.exceptions import NameValidationException, ParameterException
from rclpy.executors import MultiThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNodeMixin
from rclpy.lifecycle.node import TransitionCallbackReturn
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from cosmos3_ros.ros.environment import prepare_environment

SWITCH_INTERVAL = 2e-4  # s; the engine takes the GIL back after each of its thousands of calls
NODES = ('policy', 'world_model', 'reasoner')
THREADS = 4             # inputs, commands, timers, and a configure that waits for the engine
STOP_TIMEOUT = 1.0      # s for the engine's step in progress
FAREWELL = 0.1          # s for goals' results and the last command to leave


def main(args: list[str] | None = None) -> NoReturn:
    """`serve`, then end the process with its exit code.

    At once: Python takes seconds to tear PyTorch down, and would wait for a step of the engine
    that nothing can interrupt. By then the last command is out and nothing is left to save.
    """
    code = serve(args)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve(args: list[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; return 0, or 1 when it could not start or go on.

    `args`: the command line, `sys.argv` by default.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    _on_signal(lambda *_: os._exit(0))  # nothing runs yet, and PyTorch takes seconds to import
    prepare_environment()
    try:
        # Without rclpy's handlers, which end the context before the last command is sent.
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        code = _serve()
    except (ParameterException, NameValidationException, ValueError,
            rclpy_implementation.RCLError) as error:
        get_logger('cosmos3').fatal(f'{error}{_parameter_files(args)}')
        code = 1
    rclpy.try_shutdown()
    return code


def _on_signal(handler) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _serve() -> int:
    from cosmos3_ros.engine.device import pick_device
    from cosmos3_ros.engine.engine import Engine
    from cosmos3_ros.engine.library import ModelLibrary
    from cosmos3_ros.ros.policy.node import PolicyNode
    from cosmos3_ros.ros.reasoner.node import ReasonerNode
    from cosmos3_ros.ros.world_model.node import WorldModelNode

    stop = threading.Event()
    _on_signal(lambda *_: stop.set())
    host = Host()
    engine = Engine(pick_device(host.device))
    library = ModelLibrary(engine)
    kinds = {'policy': PolicyNode, 'world_model': WorldModelNode, 'reasoner': ReasonerNode}
    nodes = [kinds[name](engine, library) for name in host.nodes]
    executor = MultiThreadedExecutor(THREADS)
    for node in (host, *nodes):
        executor.add_node(node)
    starter = threading.Thread(target=_start, args=(nodes, host, stop), name='autostart')
    if host.autostart:
        starter.start()
    _spin(executor, host, stop)
    for node in nodes:
        node.make_safe()
    engine.close(STOP_TIMEOUT)
    if host.autostart:
        starter.join()
    _end(executor, [*nodes, host])
    return host.code


class Host(Node):
    """What belongs to the process and to none of its nodes."""

    def __init__(self) -> None:
        super().__init__('cosmos3')
        self.code = 0
        self.device = self._declare('device', 'auto', 'Where models run: auto, cuda or cpu.')
        self.nodes = self._declare('nodes', list(NODES), f'Nodes to run, of {", ".join(NODES)}.')
        if unknown := set(self.nodes) - set(NODES):
            raise ValueError(f'parameter nodes: found {", ".join(unknown)}, wanted any of '
                             f'{", ".join(NODES)}')
        self.autostart = self._declare('autostart', True, 'Configure and activate all nodes.')

    def _declare(self, name: str, default, description: str):
        descriptor = ParameterDescriptor(description=description, read_only=True)
        return self.declare_parameter(name, default, descriptor).value

    def fail(self, message: str) -> None:
        """Say why the process ends, and make its exit code 1."""
        self.get_logger().fatal(message)
        self.code = 1


def _start(nodes: list[LifecycleNodeMixin], host: Host, stop: threading.Event) -> None:
    """Configure all, then activate; a node that cannot ends the process.

    In this order, because a policy that runs leaves little of the engine for loading.
    """
    for transition in ('configure', 'activate'):
        for node in nodes:
            if stop.is_set():
                return
            if getattr(node, f'trigger_{transition}')() != TransitionCallbackReturn.SUCCESS:
                if not stop.is_set():
                    host.fail(f'{node.get_name()} did not start, see above')
                stop.set()
                return


def _spin(executor: MultiThreadedExecutor, host: Host, stop: threading.Event) -> None:
    try:
        while not stop.is_set() and rclpy.ok():
            executor.spin_once(timeout_sec=0.5)
    except Exception:
        host.fail(f'a callback failed:\n{traceback.format_exc()}')


def _end(executor: MultiThreadedExecutor, nodes: list[Node]) -> None:
    farewell = threading.Event()
    timer = threading.Timer(FAREWELL, farewell.set)
    timer.start()
    while not farewell.is_set() and rclpy.ok():
        executor.spin_once(timeout_sec=FAREWELL)
    executor._executor.shutdown()       # waits for callbacks, which rclpy's shutdown does not
    executor.shutdown()
    for node in nodes:
        node.destroy_node()


def _parameter_files(args: list[str] | None) -> str:
    words = sys.argv if args is None else args
    files = [after for word, after in zip(words, words[1:]) if word == '--params-file']
    return f' (parameter files: {", ".join(files)})' if files else ''


if __name__ == '__main__':
    main()
