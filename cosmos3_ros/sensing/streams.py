# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The newest message of each stream, and whether together they make an observation.

Times are integer nanoseconds on the node's clock, or on that of a recording; arrivals are seconds
on a steady clock, or again on that of the recording. A message without a stamp counts as taken
when it was received; the other ages come from header stamps. Messages are stored as they are.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import itertools
import threading
import time
from typing import Any

import numpy as np

from .rate import Rate

WRIST = 'wrist'
JOINT_HISTORY = 1_000_000_000   # ns; a picture older than this is refused by any sensible limit
FUTURE = 50_000_000             # ns by which a stamp may lie ahead: a /clock of 20 Hz lags as much
FRAMES_WATCHED = 150            # 10 s at 15 Hz
PAUSE = 1_000_000_000           # ns without a message, then its source has stopped for a while


@dataclass(frozen=True)
class Received:
    """A message, its stamp (ns, node clock) and its arrival (s, the stream's steady clock)."""

    message: Any
    stamp: int
    arrival: float


@dataclass(frozen=True)
class Refusal:
    """Why there is no observation: a code to count by, the stream at fault, and what to do."""

    code: str
    stream: str
    text: str


@dataclass(frozen=True)
class JointReading:
    """Arm joints [7] in rad and rad/s, the gripper joint in its own units, stamp in ns.

    A velocity that the driver does not know (none, or NaN) is 0.
    """

    stamp: int
    joints: np.ndarray
    velocities: np.ndarray
    gripper: float


@dataclass(frozen=True)
class Snapshot:
    """Raw messages of one observation; `reading` is the joint state nearest to the wrist's."""

    pictures: Mapping[str, Received]
    reading: JointReading

    @property
    def stamp(self) -> int:
        """When the observation was made: the wrist picture's stamp."""
        return self.pictures[WRIST].stamp

    @property
    def stamps(self) -> dict[str, int]:
        """When each of its messages was made, in ns: cameras by name, then `joint_states`."""
        return {name: picture.stamp for name, picture in self.pictures.items()} | {
            'joint_states': self.reading.stamp}


@dataclass(frozen=True)
class Limits:
    """Greatest ages and skew, in ns."""

    camera_age: int
    joint_age: int
    skew: int


def nanoseconds(stamp) -> int:
    """Return a Time or Duration message in ns."""
    return stamp.sec * 1_000_000_000 + stamp.nanosec


class Stream:
    """Newest message of a topic, with its rate and its losses."""

    def __init__(self, name: str, topic: str, clock: Callable[[], float] = time.monotonic):
        self.name = name
        self.topic = topic
        self.clock = clock
        self.incompatible = ''          # what is wrong with a publisher's QoS, if anything
        self.warned = False             # of zero stamps
        self.clear()

    def clear(self) -> None:
        """Forget all messages."""
        self.latest: Received | None = None
        self.unstamped = False
        self._rate = Rate()
        self._gaps: deque[int] = deque(maxlen=30)
        self._losses: deque[int] = deque(maxlen=FRAMES_WATCHED)

    def put(self, message: Any, now: int) -> None:
        """Take a message in; `now` in ns stands in for a zero stamp."""
        stamp = nanoseconds(message.header.stamp)
        self.unstamped = stamp == 0
        arrival = self.clock()
        self._rate.tick(arrival)
        if self.latest is not None:
            self._watch(stamp - self.latest.stamp)
        self.latest = Received(message, stamp or now, arrival)
        self.incompatible = ''          # somebody is heard

    def hertz(self) -> float:
        """Messages a second, by arrival."""
        return self._rate.hertz(self.clock())

    def age(self, now: int) -> int | None:
        """Age of the newest message in ns; None before the first."""
        return None if self.latest is None else now - self.latest.stamp

    @property
    def losses(self) -> tuple[int, int]:
        """Frames that never came and frames sent, of the newest ones, judged by their stamps."""
        losses = tuple(self._losses)
        return sum(losses), sum(losses) + len(losses)

    def _watch(self, gap: int) -> None:
        if self.unstamped or not 0 < gap < PAUSE:
            return
        usual = int(np.median(self._gaps)) if len(self._gaps) > 4 else gap
        self._losses.append(max(0, round(gap / usual) - 1))
        self._gaps.append(gap)


class JointStream(Stream):
    """About a second of joint states; arm and gripper may come in different messages."""

    def __init__(self, topic: str, arm_joints: Sequence[str], gripper_joint: str,
                 clock: Callable[[], float] = time.monotonic):
        self.groups = (tuple(arm_joints), (gripper_joint,))
        super().__init__('joint_states', topic, clock)

    def clear(self) -> None:
        super().clear()
        self._names: set[str] = set()
        self._histories: tuple[deque[Received], ...] = tuple(deque() for _ in self.groups)

    def put(self, message: Any, now: int) -> None:
        super().put(message, now)
        if len(message.position) != len(message.name):
            return
        self._names.update(message.name)
        for joints, history in zip(self.groups, self._histories):
            if set(joints).issubset(message.name):
                history.append(self.latest)
                while abs(self.latest.stamp - history[0].stamp) > JOINT_HISTORY:
                    history.popleft()

    def nearest(self, stamp: int | None) -> JointReading | Refusal:
        """Reading nearest to a stamp in ns, or the newest; joints are looked up by name."""
        if not all(self._histories):
            return self._missing()
        states = [min(history, key=lambda state: abs(state.stamp - stamp))
                  if stamp is not None else history[-1] for history in self._histories]
        (joints, velocities), (gripper, _) = (
            self._select(state.message, names) for state, names in zip(states, self.groups))
        for name, value in zip(itertools.chain(*self.groups), [*joints, *gripper]):
            if not np.isfinite(value):
                return Refusal('not_finite', self.name,
                               f'joint {name} is {value} on {self.topic}, wanted a finite '
                               'position: check the joint state source')
        return JointReading(min(state.stamp for state in states), joints, velocities,
                            float(gripper[0]))

    @property
    def arrival(self) -> float:
        """When the newest state of the arm came, in s of `clock`; -inf before it."""
        return self._histories[0][-1].arrival if self._histories[0] else -np.inf

    def _select(self, message: Any, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        columns = {name: column for column, name in enumerate(message.name)}
        chosen = [columns[name] for name in names]
        positions = np.array([message.position[column] for column in chosen])
        if len(message.velocity) != len(message.name):
            return positions, np.zeros(len(chosen))
        velocities = np.array([message.velocity[column] for column in chosen])
        return positions, np.where(np.isfinite(velocities), velocities, 0.0)

    def _missing(self) -> Refusal:
        if self.latest is None:
            return Refusal('missing', self.name, f'no joint states on {self.topic} yet: start the '
                           'robot driver or set joint_states_topic')
        absent = [name for name in itertools.chain(*self.groups) if name not in self._names]
        found = ', '.join(sorted(self._names)) or 'no positions'
        if absent:
            return Refusal('missing', self.name, f'joint {", ".join(absent)} is not on '
                           f'{self.topic}, which has {found}: check arm_joints and gripper_joint')
        return Refusal('missing', self.name, f'the joints {", ".join(self.groups[0])} never came '
                       f'in one message on {self.topic}: publish the arm\'s joints together')


class Streams:
    """All inputs of the policy. Every method may be called from any thread."""

    def __init__(self, cameras: Mapping[str, str], joints: JointStream, limits: Limits):
        """`cameras`: name -> topic, the wrist among them; they are on the clock of `joints`."""
        self.clock = joints.clock
        self.cameras = {name: Stream(name, topic, self.clock) for name, topic in cameras.items()}
        self.joints = joints
        self.limits = limits
        self._lock = threading.Lock()

    @property
    def all(self) -> list[Stream]:
        return [*self.cameras.values(), self.joints]

    def clear(self) -> None:
        """Forget all messages, for example when time jumps back."""
        with self._lock:
            for stream in self.all:
                stream.clear()

    def put(self, stream: Stream, message: Any, now: int) -> None:
        """Store a message."""
        with self._lock:
            stream.put(message, now)

    def snapshot(self, now: int) -> Snapshot | Refusal:
        """An observation as of `now`, or why there is none."""
        with self._lock:
            refusal = self._check_cameras(now) or self._check_joints(now)
            if refusal:
                return refusal
            pictures = {name: stream.latest for name, stream in self.cameras.items()}
            reading = self.joints.nearest(pictures[WRIST].stamp)
        if isinstance(reading, Refusal):
            return reading
        apart = abs(reading.stamp - pictures[WRIST].stamp)
        if apart > self.limits.joint_age:
            return Refusal('skew', 'joint_states', f'the joint state nearest to the wrist picture '
                           f'is {_ms(apart)} away, wanted at most {_ms(self.limits.joint_age)}: '
                           'put camera and robot on one clock')
        return Snapshot(pictures, reading)

    def present(self, now: int) -> JointReading | Refusal:
        """The newest joint reading, if it is recent enough."""
        with self._lock:
            return self._check_joints(now) or self.joints.nearest(None)

    def last_joints(self, within: float) -> JointReading | None:
        """The newest joint reading if it arrived in the last `within` s, whatever its stamp."""
        with self._lock:
            if self.clock() - self.joints.arrival > within:
                return None
            reading = self.joints.nearest(None)
        return None if isinstance(reading, Refusal) else reading

    def _check_cameras(self, now: int) -> Refusal | None:
        for stream in self.cameras.values():
            if stream.latest is None:
                return Refusal('missing', stream.name,
                               f'{stream.name}: no picture on {stream.topic} yet: start the '
                               f'camera or set cameras.{stream.name}.topic and .transport')
        for stream in self.cameras.values():
            if refusal := _check_age(stream, now, self.limits.camera_age, 'picture'):
                return refusal
        return self._check_skew()

    def _check_joints(self, now: int) -> Refusal | None:
        reading = self.joints.nearest(None)
        if isinstance(reading, Refusal):
            return reading
        return _check_age(self.joints, now, self.limits.joint_age, 'joint state', reading.stamp)

    def _check_skew(self) -> Refusal | None:
        by_stamp = sorted(self.cameras.values(), key=lambda stream: stream.latest.stamp)
        oldest, newest = by_stamp[0], by_stamp[-1]
        skew = newest.latest.stamp - oldest.latest.stamp
        if skew <= self.limits.skew:
            return None
        return Refusal('skew', oldest.name, f'{oldest.name} is {_ms(skew)} behind {newest.name}, '
                       f'wanted at most {_ms(self.limits.skew)}: synchronize the cameras or '
                       'raise max_skew')


def _check_age(stream: Stream, now: int, limit: int, what: str,
               stamp: int | None = None) -> Refusal | None:
    age = now - (stream.latest.stamp if stamp is None else stamp)
    if age > limit:
        return Refusal('age', stream.name, f'{stream.name}: the newest {what} on {stream.topic} '
                       f'is {_ms(age)} old, wanted at most {_ms(limit)}: check that it still '
                       'publishes and that its clock is right')
    if age < -FUTURE:
        return Refusal('future', stream.name, f'{stream.name}: the newest {what} on '
                       f'{stream.topic} lies {_ms(-age)} in the future: put it and this node on '
                       'one clock')
    return None


def _ms(duration: int) -> str:
    return f'{duration / 1e6:.0f} ms'
