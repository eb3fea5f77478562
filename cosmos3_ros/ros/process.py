# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The one process of a robot: an engine, the models, and the nodes that share them."""
from __future__ import annotations

import math
import os
from pathlib import Path
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import ParameterDescriptor
import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import NameValidationException, ParameterException
from rclpy.executors import MultiThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNodeMixin
from rclpy.lifecycle.node import TransitionCallbackReturn
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from cosmos3_ros.ros.diagnostics import diagnostic_array
from cosmos3_ros.ros.engine_report import EngineReport
from cosmos3_ros.ros.environment import prepare_environment
from cosmos3_ros.ros.parameters import Parameter, declare

if TYPE_CHECKING:
    from cosmos3_ros.engine.engine import Engine

NODES = ('policy', 'world_model', 'reasoner')
THREADS = 4             # inputs, commands, timers, and a configure that waits for the engine
STOP_TIMEOUT = 1.0      # s for the engine's step in progress, and for a start
FAREWELL = 0.1          # s for goals' results and the last command to leave
MAX_STEP_MS = 30.0      # on CUDA: what a chunk may have to wait for
SHARES = {f'share.{task}': Parameter(
    1.0, f'Weight of the {task} in the device time that deadlines leave.', (0.01, 100.0))
    for task in ('reasoner', 'world_model')}


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
    from cosmos3_ros.engine.trace import Trace
    from cosmos3_ros.ros.policy.node import PolicyNode
    from cosmos3_ros.ros.reasoner.node import ReasonerNode
    from cosmos3_ros.ros.world_model.node import WorldModelNode

    stop = threading.Event()
    _on_signal(lambda *_: stop.set())
    host = Host()
    device = pick_device(host.device)
    trace = Trace() if host.trace else None
    engine = Engine(device, weights=host.weights, max_unit=host.max_unit(device.type),
                    trace=trace)
    host.watch(engine)
    library = ModelLibrary(engine)
    kinds = {'policy': PolicyNode, 'world_model': WorldModelNode, 'reasoner': ReasonerNode}
    nodes = [kinds[name](engine, library) for name in host.nodes]
    executor = MultiThreadedExecutor(THREADS)
    for node in (host, *nodes):
        executor.add_node(node)
    starter = threading.Thread(target=_start, args=(nodes, host, engine, stop), name='autostart',
                               daemon=True)
    if host.autostart:
        starter.start()
    _spin(executor, host, stop)
    for node in nodes:
        node.make_safe()
    until = time.monotonic() + STOP_TIMEOUT
    closed = engine.close(STOP_TIMEOUT)
    if trace is not None and closed:
        trace.write(Path(host.trace))
    if host.autostart:
        starter.join(max(0.0, until - time.monotonic()))
    # callbacks may wait for a step or a start that does not end
    _end(executor, [*nodes, host], wait=closed and not starter.is_alive())
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
        self.trace = self._declare('trace', '', 'File for a trace of jobs and units; empty: none.')
        self._max_step_ms = self._declare(
            'max_step_ms', -1.0, 'Longer units of work are reported; 0: none are, -1: 30 on CUDA.')
        declare(self, SHARES)

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the tasks that share the time which deadlines leave."""
        return {name.removeprefix('share.'): self.get_parameter(name).value for name in SHARES}

    def max_unit(self, device_type: str) -> float:
        """Longest unit in s that is not reported."""
        limit = self._max_step_ms
        if limit < 0:
            limit = MAX_STEP_MS if device_type == 'cuda' else 0.0
        return limit * 1e-3 or math.inf

    def watch(self, engine: Engine) -> None:
        """Report an engine each second, and change its weights with the parameters."""
        report = EngineReport(self.get_fully_qualified_name(), engine)
        publisher = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(1.0, lambda: publisher.publish(diagnostic_array(
            self.get_clock().now().to_msg(), [report.status()])),
            clock=Clock(clock_type=ClockType.STEADY_TIME))

        def change(accepted: list) -> None:
            for parameter in accepted:
                if parameter.name in SHARES:
                    engine.set_weight(parameter.name.removeprefix('share.'), parameter.value)

        self.add_post_set_parameters_callback(change)

    def _declare(self, name: str, default, description: str):
        descriptor = ParameterDescriptor(description=description, read_only=True)
        return self.declare_parameter(name, default, descriptor).value

    def fail(self, message: str) -> None:
        """Say why the process ends, and make its exit code 1."""
        self.get_logger().fatal(message)
        self.code = 1


def _start(nodes: list[LifecycleNodeMixin], host: Host, engine: Engine,
           stop: threading.Event) -> None:
    """Tell the memory needed, configure all, then activate; what fails ends the process.

    In this order, because a policy that runs leaves little of the engine for loading.
    """
    from cosmos3_ros.ros.memory import plan_memory
    try:
        if nodes and (told := plan_memory(nodes, engine)):
            host.get_logger().info(told)
    except ValueError as error:
        host.fail(str(error))
        stop.set()
        return
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


def _end(executor: MultiThreadedExecutor, nodes: list[Node], wait: bool) -> None:
    """Let the last messages leave, `wait` for callbacks, and destroy the nodes."""
    farewell = threading.Event()
    timer = threading.Timer(FAREWELL, farewell.set)
    timer.start()
    while not farewell.is_set() and rclpy.ok():
        executor.spin_once(timeout_sec=FAREWELL)
    executor._executor.shutdown(wait)   # waits for callbacks, which rclpy's shutdown does not
    executor.shutdown()
    for node in nodes:
        node.destroy_node()


def _parameter_files(args: list[str] | None) -> str:
    words = sys.argv if args is None else args
    files = [after for word, after in zip(words, words[1:]) if word == '--params-file']
    return f' (parameter files: {", ".join(files)})' if files else ''


if __name__ == '__main__':
    main()
