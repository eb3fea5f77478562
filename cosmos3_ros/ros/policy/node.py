# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Lifecycle node `policy`: cameras and joint states in, action chunks and trajectories out.

Executor callbacks store messages and start requests; they never wait for the engine. Pictures are
converted on the pipeline's first thread, chunks are published from its second one.
"""
from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
import threading
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState
from rclpy.lifecycle.node import TransitionCallbackReturn
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from cosmos3_ros.droid.observation import ARM_JOINTS, CAMERAS, Observation
from cosmos3_ros.droid.recipe import request
from cosmos3_ros.engine.device import pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.msg import ActionChunk
from cosmos3_ros.ros.diagnostics import Level, Status, diagnostic_array
from cosmos3_ros.ros.inputs import Inputs
from cosmos3_ros.ros.lifecycle import describe, refuse_wrong_transitions
from cosmos3_ros.ros.messages import to_time
from cosmos3_ros.ros.parameters import declare
from cosmos3_ros.ros.policy import report, settings
from cosmos3_ros.ros.policy.inputs import make_streams, subscribe
from cosmos3_ros.ros.policy.messages import action_chunk
from cosmos3_ros.ros.policy.motion import Figures, Motion, Unusable
from cosmos3_ros.ros.policy.pipeline import Job, Request
from cosmos3_ros.ros.policy.requests import Requests
from cosmos3_ros.ros.policy.run_policy import Instructions, Outcome
from cosmos3_ros.tasks.policy import policy

TICK = 0.05             # s between looks at the clock, the goal and the age of the plan
BACKWARD = 100_000_000  # ns; a clock set back by less is being disciplined, not restarted
NOTICE = 10.0           # s between log lines about drops of one kind


def droid_job(model: Any, observation: Observation, seed: int) -> Job:
    """The engine's job for an observation; its result has `actions`, float32 [h, 8]."""
    return policy(model, request(observation, seed))


class PolicyNode(LifecycleNodeMixin, Node):
    """The DROID policy as a managed node.

    `library` loads the checkpoint on `engine`, which runs what `make_job` returns for the loaded
    model, an observation and a seed. Raises rclpy's ParameterException for a parameter of another
    type or out of range, ValueError for parameters that do not fit together.
    """

    def __init__(self, engine: Engine, library: ModelLibrary,
                 make_job: Callable[[Any, Observation, int], Job] = droid_job, **node_options):
        Node.__init__(self, 'policy', **node_options)
        # Reentrant: the state stays readable while a configure is at work.
        LifecycleNodeMixin.__init__(self, callback_group=ReentrantCallbackGroup())
        refuse_wrong_transitions(self)
        declare(self, settings.POLICY)
        self._settings = settings.read(self)
        self._engine, self._library, self._make_job = engine, library, make_job
        self._model: Any = None
        self._checkpoint = ''           # name of the model that was loaded last
        self._model_state = (Level.OK, 'not loaded')
        self._active = False
        self._said: dict[str, float] = {}
        self._last_time, self._clock_lock = 0, threading.Lock()
        self._inputs: Inputs | None = None
        self._streams = make_streams(self, self._settings)
        self._advertise()
        self._motion = Motion(self._settings, self._streams, self._arm_commands.publish,
                              self._gripper_commands.publish)
        self._requests = Requests(
            engine, lambda observation, seed: make_job(self._model, observation, seed),
            self._streams, self._settings, self._now, self._publish, self._drop)
        commands = MutuallyExclusiveCallbackGroup()
        self._instructions = Instructions(self, lambda: self._active, self._on_instruction,
                                          commands)
        self.create_service(SetBool, '~/arm', self._arm, callback_group=commands)
        settings.watch(self, self._on_parameters)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        for period, work in ((TICK, self._tick), (1.0, self._publish_diagnostics)):
            self.create_timer(period, work, MutuallyExclusiveCallbackGroup(), steady)

    def statistics(self) -> dict:
        """Figures since activation; times in ms, NaN before the first chunk."""
        return self._requests.counts.statistics() | {
            'max_in_flight': self._requests.pipeline.max_in_flight,
            'trajectories': self._motion.figures.trajectories}

    def make_safe(self) -> None:
        """Stop asking, stop the arm, drop what is in flight. May be called in any state."""
        self._active = False
        self._motion.disarm(self._now())
        self._requests.instruct('', flush_at=self._now())
        self._instructions.end(Outcome.FAILED, 'the node was stopped')

    def destroy_node(self) -> None:
        """End the pipeline's threads and destroy the node."""
        self._requests.pipeline.close()
        self._close_inputs()
        self._instructions.destroy()
        super().destroy_node()

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load and warm up; on failure say why and stay unconfigured."""
        try:
            self._load(self._settings.policy_checkpoint)
        except (Exception, CancelledError) as error:
            self._model = None
            self._model_state = (Level.ERROR, describe(error))
            self.get_logger().error(f'configure failed: {describe(error)}')
            return TransitionCallbackReturn.FAILURE
        self._inputs = Inputs(self)
        subscribe(self._inputs.node, self._settings, self._streams, self._read_clock,
                  self._requests.try_start)
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start asking as soon as there is an instruction; never armed."""
        self._requests.restart()
        self._motion.figures = Figures()
        result = super().on_activate(state)
        self._active = True
        self._requests.instruct(self._instructions.text)
        return result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the arm, then everything else."""
        self.make_safe()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let go of the model and the inputs."""
        self.make_safe()
        self._unload()
        return super().on_cleanup(state)

    on_shutdown = on_cleanup

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """A transition raised: stop, and be unconfigured."""
        self.get_logger().error(f'transition from {state.label} failed')
        return self.on_cleanup(state)

    def _load(self, reference: str) -> None:
        self._say_model(f'loading {reference}')
        started = time.monotonic()
        dtype = pick_dtype(self._settings['precision'], self._engine.device)
        self._model = self._library.acquire(reference, dtype).result()
        self._checkpoint = self._model.name
        self._say_model(f'warming up {reference}, loaded in {time.monotonic() - started:.1f} s')
        pictures = dict.fromkeys(CAMERAS, np.zeros((360, 640, 3), np.uint8))
        observation = Observation('Warm up.', pictures, np.zeros(ARM_JOINTS), 0.0)
        # not as a chunk: what it takes is no measure of what chunks need
        self._engine.submit(self._make_job(self._model, observation, 0), task='load',
                            name='warm-up').result()
        self._say_model(f'ready: {reference}, after {time.monotonic() - started:.1f} s')

    def _say_model(self, text: str) -> None:
        self._model_state = (Level.OK, text)
        self.get_logger().info(text)

    def _unload(self) -> None:
        self._close_inputs()
        self._streams.clear()
        self._model = None
        self._model_state = (Level.OK, 'not loaded')

    def _close_inputs(self) -> None:
        inputs, self._inputs = self._inputs, None
        if inputs is not None:
            inputs.close()

    # Time

    def _now(self) -> int:
        return self.get_clock().now().nanoseconds

    def _read_clock(self) -> int | None:
        """Node time in ns; None before the first /clock. A jump back starts everything anew."""
        with self._clock_lock:          # else a thread that is held up looks like a jump
            now = self._now()
            last, self._last_time = self._last_time, now or self._last_time
        if now == 0:
            self._say('clock', 'use_sim_time is true: waiting for /clock', once=True)
            return None
        if last - now > BACKWARD:
            self._start_anew(last, now)
        return now

    def _start_anew(self, last: int, now: int) -> None:
        self.get_logger().warning(f'time jumped back by {(last - now) * 1e-9:.1f} s: buffers and '
                                  'chunks in flight are dropped, the arm is disarmed')
        self._motion.disarm(last, 'time jumped back')
        self._streams.clear()
        self._requests.start_anew()
        self._instructions.end(Outcome.FAILED, 'time jumped back')

    def _tick(self) -> None:
        now = self._read_clock()
        if now is None:
            return
        self._requests.simulated_time = self.get_clock().ros_time_is_active
        self._instructions.check(now)
        if reason := self._motion.given_up(now, bool(self._requests.instruction)):
            self.get_logger().error(f'disarmed: {reason}')
            self._motion.disarm(now, reason)
        self._requests.try_start()

    # Chunks

    def _publish(self, request: Request, targets: np.ndarray) -> None:
        now, stamp, counts = self._now(), request.snapshot.stamp, self._requests.counts
        self._chunks.publish(action_chunk(
            request, targets, self._settings.column_names, self._checkpoint, now))
        counts.chunks += 1
        counts.observation_age.add((now - stamp) * 1e-6)
        try:
            self._motion.follow(stamp, request.snapshot.reading.joints, targets, self._now())
        except Unusable as error:
            self._count_drop(error.code, f'not executed: {error}')
        self._instructions.on_chunk(
            request.sequence, now - stamp, self._requests.pipeline.in_flight)

    def _drop(self, code: str, text: str, sequence: int | None) -> None:
        self._count_drop(code, text)
        self._instructions.on_drop(sequence)

    def _count_drop(self, code: str, text: str) -> None:
        self._requests.counts.drop(code, text)
        if code != 'cancelled':
            self._say(code, f'dropped: {text}')

    # Commands

    def _on_instruction(self, text: str, seed: int, outcome: int | None) -> int:
        self.get_logger().info(f'instruction: {text!r}')
        flush = outcome is not None or self._settings['on_new_instruction'] == 'flush'
        now = self._now()
        first = self._requests.instruct(text if self._active else '', seed,
                                        now if flush else None)
        if flush and outcome != Outcome.SUCCEEDED:  # then the last chunk is executed to its end
            self._motion.halt(now)
        return first

    def _arm(self, command: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        if not command.data:
            was_armed = self._motion.disarm(self._now())
            response.success, response.message = True, 'disarmed' if was_armed else 'not armed'
        else:
            reason = self._motion.arm(self._now()) if self._active else ''
            if not self._active:        # perhaps since then
                self._motion.disarm(self._now())
                reason = 'the node is not active: activate it first'
            response.success, response.message = not reason, reason or 'armed'
        self.get_logger().info(f'arm {command.data}: {response.message}')
        return response

    def _on_parameters(self, changed: settings.Settings) -> None:
        self._settings = self._requests.settings = changed
        self._streams.limits = changed.stream_limits()
        self._motion.change(changed, self._now())

    # Outputs

    def _advertise(self) -> None:
        newest = QoSProfile(depth=1)    # reliable, volatile
        self._chunks = self.create_lifecycle_publisher(ActionChunk, '~/action_chunk', newest)
        self._arm_commands = self.create_lifecycle_publisher(
            JointTrajectory, '~/joint_trajectory', newest)
        self._gripper_commands = self.create_lifecycle_publisher(
            JointTrajectory, '~/gripper_trajectory', newest)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)

    def _publish_diagnostics(self) -> None:
        name, now = self.get_fully_qualified_name(), self._now()
        model = Status(name, 'model')
        model.report(*self._model_state)
        model.value('checkpoint', self._model.name if self._model else '')
        model.value('lifecycle state', self._state_machine.current_state[1])
        statuses = [model]
        if self._inputs is not None:
            statuses += report.running(name, self._streams, self._requests, self._motion,
                                              now)
        self._diagnostics.publish(diagnostic_array(to_time(now), statuses))

    def _say(self, kind: str, text: str, once: bool = False) -> None:
        """Warn, at most every NOTICE s for one kind."""
        now = time.monotonic()
        if kind not in self._said or (not once and now - self._said[kind] > NOTICE):
            self._said[kind] = now
            self.get_logger().warning(text)
