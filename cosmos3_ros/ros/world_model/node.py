# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Lifecycle node `world_model`: Imagine goals in, imagined frames out."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
import contextlib
import queue
import secrets
import threading
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import GoalEvent, ServerGoalHandle
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState
from rclpy.lifecycle.node import TransitionCallbackReturn
from rclpy.node import Node

from cosmos3_ros.action import Imagine
from cosmos3_ros.droid.recipe import RECIPE as DROID
from cosmos3_ros.engine.device import pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.engine.sessions import SessionError, SessionPool
from cosmos3_ros.msg import ActionChunk
from cosmos3_ros.ros.diagnostics import Level, Status, diagnostic_array
from cosmos3_ros.ros.images import ImageError
from cosmos3_ros.ros.lifecycle import refuse_wrong_transitions
from cosmos3_ros.ros.messages import to_time
from cosmos3_ros.ros.parameters import declare
from cosmos3_ros.ros.world_model import goals
from cosmos3_ros.ros.world_model.goals import Opened, Start
from cosmos3_ros.ros.world_model.imagination import Imagination, Outcome, Progress, Segment
from cosmos3_ros.ros.world_model.output import Output
from cosmos3_ros.ros.world_model.pictures import Pictures
from cosmos3_ros.ros.world_model.settings import WORLD_MODEL
from cosmos3_ros.srv import CloseSession, Steer
from cosmos3_ros.tasks.dynamics import DynamicsRecipe, DynamicsSession
from cosmos3_ros.tasks.rollout import RolloutSession

REFUSALS = (SessionError, ValueError, ImageError)
Plan = tuple[int, Callable[[], RolloutSession | DynamicsSession]]   # bytes, and how to make it
CHUNK_TIMEOUT = 5.0     # s without a chunk of the policy, then a goal that follows it fails


class WorldModelNode(LifecycleNodeMixin, Node):
    """The world model as a managed node; it shares the engine and the weights with the others."""

    def __init__(self, engine: Engine, library: ModelLibrary, **node_options):
        Node.__init__(self, 'world_model', **node_options)
        LifecycleNodeMixin.__init__(self, callback_group=ReentrantCallbackGroup())
        refuse_wrong_transitions(self)
        declare(self, WORLD_MODEL)
        self._engine, self._library = engine, library
        self._model: Any = None
        self._active = False
        self._state = (Level.OK, 'not loaded')
        self._running: dict[bytes, Imagination] = {}
        self._chunks: queue.Queue = queue.Queue(maxsize=1)
        self._sessions: SessionPool[Opened] = SessionPool(
            engine.device, self._value('session_limit'), self._value('session_idle'))
        self._pictures = Pictures(self)
        self._output = Output(self)
        self._serve()

    def make_safe(self) -> None:
        """Cancel all goals. May be called in any state."""
        self._active = False
        for imagination in list(self._running.values()):
            imagination.cancel()

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model; on failure say why and stay unconfigured."""
        reference = self._value('checkpoint')
        self._say(Level.OK, f'loading {reference}')
        try:
            if not reference:
                raise ValueError('parameter checkpoint is empty: wanted a folder, a hub id such '
                                 'as nvidia/Cosmos3-Edge, or random:tiny')
            dtype = pick_dtype(self._value('precision'), self._engine.device)
            self._model = self._library.acquire(reference, dtype).result()
        except (Exception, CancelledError) as error:
            self._say(Level.ERROR, f'configure failed: {error or type(error).__name__}')
            return TransitionCallbackReturn.FAILURE
        self._say(Level.OK, f'ready: {reference}')
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take goals."""
        self._active = True
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Cancel goals; sessions stay."""
        self.make_safe()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let go of sessions and model."""
        self.make_safe()
        for name in self._sessions.names:
            with contextlib.suppress(SessionError):
                self._sessions.close(name)
        self._model = None
        self._say(Level.OK, 'not loaded')
        return super().on_cleanup(state)

    on_shutdown = on_cleanup

    # Goals

    def _serve(self) -> None:
        group = ReentrantCallbackGroup()
        self._server = ActionServer(
            self, Imagine, '~/imagine', execute_callback=lambda _: Imagine.Result(),
            goal_callback=self._admit, handle_accepted_callback=self._begin,
            cancel_callback=self._cancel, callback_group=group)
        self.create_service(Steer, '~/steer', self._steer, callback_group=group)
        self.create_service(CloseSession, '~/close_session', self._close, callback_group=group)
        self.create_subscription(ActionChunk, self._value('action_chunk_topic'), self._on_chunk, 1)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(1.0, self._each_second, MutuallyExclusiveCallbackGroup(),
                          Clock(clock_type=ClockType.STEADY_TIME))

    def _admit(self, _: Imagine.Goal) -> GoalResponse:
        if self._active:
            return GoalResponse.ACCEPT
        self.get_logger().warning('imagine: goal rejected, the node is not active: activate it')
        return GoalResponse.REJECT

    def _begin(self, handle: ServerGoalHandle) -> None:
        handle._update_state(GoalEvent.EXECUTE)     # execute() would also schedule it
        threading.Thread(target=self._run, args=(handle,), name='imagine', daemon=True).start()

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        if imagination := self._running.get(bytes(handle.goal_id.uuid)):
            imagination.cancel()
        return CancelResponse.ACCEPT

    def _run(self, handle: ServerGoalHandle) -> None:
        """Serve one goal on its own thread; it ends exactly once, whatever happens."""
        result, key = Imagine.Result(outcome=Outcome.FAILED), bytes(handle.goal_id.uuid)
        try:
            self._stream(handle, key, result)
            result.outcome, result.message = Outcome.SUCCEEDED, f'{result.frames} frames'
        except CancelledError:
            result.outcome, result.message = Outcome.CANCELLED, 'cancelled'
        except REFUSALS as error:
            result.outcome, result.message = Outcome.REFUSED, str(error)
        except Exception as error:      # out of memory, say: this goal fails, the node goes on
            result.message = f'{type(error).__name__}: {error}'
        self._running.pop(key, None)
        if not (handle.request.session or result.windows):
            with contextlib.suppress(SessionError):
                self._sessions.close(result.session)    # nothing to go on with
                result.session = ''
        if result.outcome in (Outcome.REFUSED, Outcome.FAILED):
            self.get_logger().warning(f'imagine: {result.message}')
        self._server.notify_execute(handle, lambda ended: _finish(ended, result))

    def _stream(self, handle: ServerGoalHandle, key: bytes, result: Imagine.Result) -> None:
        goal = handle.request
        result.session = goal.session or secrets.token_hex(4)
        if not goal.session:
            self._open(goal, result.session)
        with self._sessions.use(result.session) as opened:
            session = opened.session
            result.seed = session.seed
            imagination = Imagination(
                self._engine, self._segments(goal, session),
                lambda frame: self._output.publish(frame, opened, result.session),
                lambda progress: handle.publish_feedback(_feedback(result, session, progress)))
            self._running[key] = imagination
            if handle.is_cancel_requested:
                imagination.cancel()
            try:
                imagination.run()
            finally:
                _fill(result, session, imagination.progress)

    def _open(self, goal: Imagine.Goal, name: str) -> None:
        start = self._pictures.start(goal, self._now())
        seed = goal.seed if goal.seed >= 0 else secrets.randbits(31)
        size, create = (self._plan_dynamics if goal.actions or goal.follow_policy
                        else self._plan_rollout)(goal, start, seed)
        self._sessions.open(name, size, lambda: Opened(create(), start))

    def _plan_rollout(self, goal: Imagine.Goal, start: Start, seed: int) -> Plan:
        recipe, prompts = goals.recipe(goal), (goal.prompt, goal.negative_prompt)
        tokens = sum(len(self._model.tokenizer.encode(prompt)) for prompt in prompts)
        return (RolloutSession.device_bytes(self._model, recipe, tokens),
                lambda: RolloutSession(self._model, *prompts, recipe, seed, start.picture))

    def _plan_dynamics(self, goal: Imagine.Goal, start: Start, seed: int) -> Plan:
        recipe = DynamicsRecipe(domain=DROID.domain, row_offset=DROID.action_offset,
                                **({'steps': goal.steps} if goal.steps else {}))
        # nothing of it stays on the device between chunks
        return 0, lambda: DynamicsSession(self._model, goal.prompt, recipe, seed, start.picture)

    def _segments(self, goal: Imagine.Goal, session: Any) -> Iterator[Segment]:
        driven = bool(goal.actions or goal.follow_policy)
        if driven != isinstance(session, DynamicsSession):
            raise ValueError(f'session {goal.session!r} was opened '
                             f'{"without" if driven else "with"} actions, go on in the same way')
        if driven:
            chunks = self._next_chunks() if goal.follow_policy else goal.actions
            for rows in goals.chunk_rows(chunks):
                yield lambda emit, rows=rows: session.run(rows, emit)
            return
        if goal.session and goal.prompt and goal.prompt != session.prompt:
            session.steer(goal.prompt)
        if goal.frames:
            yield lambda emit: session.run(goal.frames, emit)
        while not goal.frames:
            yield lambda emit: session.run(session.window_frames, emit)

    def _next_chunks(self) -> Iterator[ActionChunk]:
        with contextlib.suppress(queue.Empty):
            self._chunks.get_nowait()   # one from before the goal
        while True:
            try:
                yield self._chunks.get(timeout=CHUNK_TIMEOUT)
            except queue.Empty:
                raise RuntimeError(
                    f'no chunk on {self._value("action_chunk_topic")} for {CHUNK_TIMEOUT:.0f} s: '
                    'activate the policy and give it an instruction') from None

    def _on_chunk(self, chunk: ActionChunk) -> None:
        with contextlib.suppress(queue.Empty):
            self._chunks.get_nowait()   # the newest alone is followed
        with contextlib.suppress(queue.Full):
            self._chunks.put_nowait(chunk)

    # Sessions

    def _steer(self, request: Steer.Request, response: Steer.Response) -> Steer.Response:
        try:
            if not request.prompt.strip():
                raise ValueError('prompt is empty: say what should happen')
            response.window = self._steered(request.session).steer(request.prompt)
            response.success = True
        except REFUSALS as error:
            response.message = str(error)
        return response

    def _steered(self, name: str) -> RolloutSession:
        session = self._sessions.peek(name).session
        if isinstance(session, DynamicsSession):
            raise ValueError(f'session {name!r} is driven by actions, not by its prompt')
        return session

    def _close(self, request: CloseSession.Request,
               response: CloseSession.Response) -> CloseSession.Response:
        try:
            response.bytes_freed = self._sessions.close(request.session)
            response.success = True
        except SessionError as error:
            response.message = str(error)
        return response

    # Outputs

    def _each_second(self) -> None:
        for name in self._sessions.expire():
            self.get_logger().info(f'session {name} was idle too long and is closed')
        status = Status(self.get_fully_qualified_name(), 'imagination')
        status.report(*self._state)
        status.value('goals', len(self._running))
        status.value('sessions', ', '.join(self._sessions.names) or 'none')
        status.value('frames published', self._output.frames)
        self._diagnostics.publish(diagnostic_array(to_time(self._now()), [status]))

    def _say(self, level: Level, text: str) -> None:
        self._state = (level, text)
        (self.get_logger().error if level == Level.ERROR else self.get_logger().info)(text)

    def _value(self, name: str) -> Any:
        return self.get_parameter(name).value

    def _now(self) -> int:
        return self.get_clock().now().nanoseconds


def _feedback(result: Imagine.Result, session: Any, progress: Progress) -> Imagine.Feedback:
    return Imagine.Feedback(
        session=result.session, frames=progress.frames, windows=session.windows,
        frames_per_second=progress.rate, time_to_first_frame=progress.first_frame)


def _fill(result: Imagine.Result, session: Any, progress: Progress) -> None:
    result.frames, result.windows = progress.frames, session.windows
    result.frames_per_second = progress.rate
    result.time_to_first_frame = progress.first_frame


def _finish(handle: ServerGoalHandle, result: Imagine.Result) -> Imagine.Result:
    if result.outcome == Outcome.SUCCEEDED:
        handle.succeed()
    elif result.outcome == Outcome.CANCELLED:
        handle.canceled()
    else:
        handle.abort()
    return result
