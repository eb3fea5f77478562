# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A bag walked in recorded time: which moments are observed, and why others are not.

Everything that the live node's clock decides is decided by the time of receipt in the bag: ages,
the patience with late cameras, and when the next observation is wanted.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
import math

from cosmos3_ros.droid.recipe import STEP
from cosmos3_ros.sensing.intake import Intake
from cosmos3_ros.sensing.streams import WRIST, Refusal, Snapshot

from .bag import Bag, BagError
from .setup import Setup

TICK = 50_000_000       # ns between looks at the streams without a picture; the live node's


@dataclass(frozen=True)
class Taken:
    """An observation; `taken` and `ready`: ns, when it was taken and when its chunk is there."""

    snapshot: Snapshot
    instruction: str
    taken: int
    ready: int


@dataclass(frozen=True)
class Refused:
    """A wrist picture that gave no chunk although one was wanted, as of `time` (ns)."""

    time: int
    refusal: Refusal


class EveryRows:
    """Wants an observation whenever so many rows of the last chunk are executed.

    Chunks count from their observation's stamp and are there at once.
    """

    def __init__(self, rows: int):
        if rows < 1:
            raise ValueError(f'rows to execute: found {rows}, wanted at least 1')
        self.text = f'every {rows} rows'
        self._period = round(rows * STEP * 1e9)
        self._slack = round(STEP * 5e8)         # the picture nearest to the due time is taken
        self._due = 0

    def wants(self, now: int, newest: int) -> bool:
        """Whether an observation is wanted; `newest`: stamp of the newest wrist picture (ns)."""
        return newest >= self._due

    def take(self, stamp: int, now: int) -> int:
        """An observation was taken; when its chunk is there (ns)."""
        self._due = stamp + self._period - self._slack
        return stamp

    def next_reply(self, now: int) -> float:
        """When the next chunk is there (ns), infinity if that changes nothing."""
        return math.inf

    def flush(self) -> None:
        """A new instruction: wants an observation at once."""
        self._due = 0


class WithLatency:
    """Asks as a live node does whose chunks come `latency` s after their observation was taken.

    `places`: requests in flight at a time.
    """

    def __init__(self, latency: float, places: int):
        if not 0 <= latency < 60:
            raise ValueError(f'latency: found {latency} s, wanted 0 to 60')
        self.text = f'as live with {latency:g} s latency'
        self._latency = round(latency * 1e9)
        self._places = places
        self._replies: list[int] = []

    def wants(self, now: int, newest: int) -> bool:
        self._replies = [reply for reply in self._replies if reply > now]
        return len(self._replies) < self._places

    def take(self, stamp: int, now: int) -> int:
        self._replies.append(now + self._latency)
        return self._replies[-1]

    def next_reply(self, now: int) -> float:
        return min((reply for reply in self._replies if reply > now), default=math.inf)

    def flush(self) -> None:
        self._replies.clear()


Pace = EveryRows | WithLatency


def walk(bag: Bag, setup: Setup, pace: Pace, instruction: str = '') -> Iterator[Taken | Refused]:
    """Observations of a bag in their order, and what was refused between them.

    `instruction` holds throughout; if it is empty, the bag's own instructions do. Raises BagError
    for a missing topic, or if nobody says what to do.
    """
    return _Walk(bag, setup, pace, instruction).run()


class _Walk:
    def __init__(self, bag: Bag, setup: Setup, pace: Pace, instruction: str):
        self._bag, self._pace, self._instruction = bag, pace, instruction
        self._now = bag.start
        self._streams = setup.streams(bag, lambda: self._now * 1e-9)
        self._by_topic: dict[str, list] = {}
        for stream in self._streams.all:        # one topic may serve several cameras
            self._by_topic.setdefault(stream.topic, []).append(stream)
        self._spoken = '' if instruction else setup.instructions(bag)
        if not (instruction or self._spoken):
            raise BagError(f'bag {bag.path}: says no instruction on '
                           f'{setup.instruction_topic}: give one with --instruction')
        self._intake = Intake(self._streams)

    def run(self) -> Iterator[Taken | Refused]:
        tick = self._now + TICK
        topics = [*self._by_topic, *filter(None, [self._spoken])]
        for topic, time, message in self._bag.messages(topics):
            while (due := min(tick, self._pace.next_reply(self._now))) <= time:
                tick += TICK if due == tick else 0
                yield from self._look(due)
            yield from self._hear(topic, time, message)
        if refused := self._intake.refused:
            yield Refused(self._now, refused[1])

    def _hear(self, topic: str, time: int, message) -> Iterator[Taken | Refused]:
        self._now = max(time, self._now)
        if topic == self._spoken:
            self._instruct(message.data.strip())
            return
        streams = self._by_topic[topic]
        for stream in streams:
            self._streams.put(stream, message, self._now)
        if streams[0] is not self._streams.joints:
            yield from self._look(self._now)

    def _instruct(self, text: str) -> None:
        if text != self._instruction:
            self._instruction = text
            self._intake.skip_to(self._now)
            self._pace.flush()

    def _look(self, now: int) -> Iterator[Taken | Refused]:
        self._now = now
        wrist = self._streams.cameras[WRIST].latest
        if not (wrist and self._instruction and self._pace.wants(now, wrist.stamp)):
            return
        snapshot, unused = self._intake.take(now)
        if unused is not None:
            yield Refused(now, unused)
        if snapshot is not None:
            ready = self._pace.take(snapshot.stamp, now)
            yield Taken(snapshot, self._instruction, now, ready)
