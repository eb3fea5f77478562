# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Which moments become observations, and what they are made of."""
from __future__ import annotations

from cosmos3_ros.control.gripper import GripperRange
from cosmos3_ros.droid.observation import Observation

from .images import ImageError, to_rgb
from .streams import WRIST, Refusal, Snapshot, Streams

PATIENCE = 0.02         # s that a wrist picture waits for those of the other cameras


class Intake:
    """Takes each moment of the streams at most once, in order. Not thread-safe.

    `refused`: stamp (ns) of the wrist picture that could not be used last, why, and since when
    (s of the streams' clock) none could; None once one was.
    """

    def __init__(self, streams: Streams):
        self.refused: tuple[int, Refusal, float] | None = None
        self._streams = streams
        self.forget()

    def forget(self) -> None:
        """Forget which moments were used: time has jumped."""
        self._used = 0                  # stamp of a wrist picture

    def skip_to(self, stamp: int) -> None:
        """Use nothing from before a stamp (ns)."""
        self._used = max(self._used, stamp)

    def take(self, now: int) -> tuple[Snapshot | None, Refusal | None]:
        """A moment that was not used before, if one is to be had as of `now` (ns).

        With it, why an earlier wrist picture stays unused, once that is clear.
        """
        wrist = self._streams.cameras[WRIST].latest
        snapshot = self._streams.snapshot(now)
        if isinstance(snapshot, Refusal):
            return None, self._note_refusal(wrist.stamp if wrist else 0, snapshot)
        if snapshot.stamp <= self._used or self._more_to_come(snapshot):
            return None, None
        unused = self._note_refusal(snapshot.stamp, None)
        self._used = snapshot.stamp
        return snapshot, unused

    def _more_to_come(self, snapshot: Snapshot) -> bool:
        """Whether another camera's picture of this moment may still be on its way."""
        waited = self._streams.clock() - snapshot.pictures[WRIST].arrival
        return waited < PATIENCE and any(
            picture.stamp <= self._used for picture in snapshot.pictures.values())

    def _note_refusal(self, stamp: int, refusal: Refusal | None) -> Refusal | None:
        """Return the refusal of an earlier wrist picture once it is clear that it stays unused."""
        before = self.refused
        since = before[2] if before else self._streams.clock()
        self.refused = refusal and (stamp, refusal, since)
        return before[1] if before and before[0] not in (stamp, self._used) else None


def observe(snapshot: Snapshot, instruction: str, gripper_range: GripperRange) -> Observation:
    """Convert a snapshot's messages. Raises ImageError or ObservationError."""
    pictures = {}
    for name, picture in snapshot.pictures.items():
        try:
            pictures[name] = to_rgb(picture.message)
        except ImageError as error:
            raise ImageError(f'{name}: {error}') from error
    gripper = gripper_range.to_fraction(snapshot.reading.gripper)
    return Observation(instruction, pictures, snapshot.reading.joints, float(gripper))
