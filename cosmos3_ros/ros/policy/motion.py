# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""From chunks to trajectories: armed or not, the gate, the seams, and how the arm is stopped."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import threading

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from cosmos3_ros.control.gate import GateError
from cosmos3_ros.control.gripper import GripperSplicer
from cosmos3_ros.control.spline import Spline
from cosmos3_ros.control.trajectory import Splice, SpliceError, Trajectory
from cosmos3_ros.droid.actions import WIDTH
from cosmos3_ros.droid.observation import ARM_JOINTS
from cosmos3_ros.droid.recipe import STEP
from cosmos3_ros.ros.policy.messages import joint_trajectory
from cosmos3_ros.ros.policy.settings import Settings
from cosmos3_ros.sensing.streams import Refusal, Streams

GRIPPER = WIDTH - 1                     # column of a chunk
Publish = Callable[[JointTrajectory], None]


class Unusable(ValueError):
    """A chunk that cannot be executed; `code` is what it counts as."""

    def __init__(self, code: str, text: str):
        super().__init__(text)
        self.code = code


@dataclass
class Figures:
    """What motion looked like since activation: joint and value of the largest, rad."""

    trajectories: int = 0
    excess: tuple[str, float] = ('', 0.0)
    jump: tuple[str, float] = ('', 0.0)


class Motion:
    """The only way from a chunk to the robot. Every method may be called from any thread.

    Times are ns on the node's clock. Nothing is published unless armed; `disarm` and `halt`
    publish a stop on the spot first.
    """

    def __init__(self, settings: Settings, streams: Streams, publish_arm: Publish,
                 publish_gripper: Publish):
        self._streams = streams
        self._publish_arm = publish_arm
        self._publish_gripper = publish_gripper
        self._lock = threading.RLock()
        self.armed = False
        self.fault = ''                 # why motion was given up, until armed again
        self.figures = Figures()
        self._settings = settings
        self._gate = settings.gate()
        self._splicer = settings.splicer()
        self._gripper = GripperSplicer(settings.gripper_range())
        self._plan: Spline | None = None        # what was published since arming or the last stop
        self._waiting_since: int | None = None

    @property
    def allowed(self) -> bool:
        """The first key."""
        return self._settings['allow_motion']

    def change(self, settings: Settings, now: int) -> None:
        """Take changed settings over; the plan stays, unless the first key was taken out."""
        with self._lock:
            self._settings = settings
            self._gate = settings.gate()
            for name in ('max_reply_age', 'max_chunk_age', 'give_up_age'):
                setattr(self._splicer, name, settings[name])
            if not settings['allow_motion']:
                self.disarm(now)

    def arm(self, now: int) -> str:
        """Turn the second key; returns why not, or nothing."""
        with self._lock:
            if not self._settings['allow_motion']:
                return 'parameter allow_motion is false: set it to true first'
            present = self._streams.present(now)
            if isinstance(present, Refusal):
                return present.text
            if not self.armed:
                closed = self._settings.gripper_range().to_fraction(present.gripper) > 0.5
                self._gripper.reset(bool(closed))
                self._splicer.reset(now * 1e-9)
                self.armed, self.fault, self._waiting_since = True, '', None
            return ''

    def disarm(self, now: int, fault: str = '') -> bool:
        """Stop on the spot and take the key out; False if it was not in. `fault` is shown."""
        with self._lock:
            if not self.armed:
                return False
            self.halt(now)
            self.armed, self.fault = False, fault
            return True

    def halt(self, now: int) -> None:
        """Stop on the spot, armed as before; observations from before `now` no longer move."""
        with self._lock:
            self._splicer.reset(now * 1e-9)
            if self.armed:
                self._stop(now * 1e-9)
            self._plan = None

    def follow(self, stamp: int, state: np.ndarray, targets: np.ndarray, now: int) -> bool:
        """Execute a chunk: `targets` [h, 8] as of `stamp`, asked for in `state` [7] rad.

        False if not armed. Raises Unusable; the plan then stays.
        """
        with self._lock:
            if not self.armed:
                return False
            try:
                self._follow(stamp, state, targets, now)
            except GateError as error:
                raise Unusable('gate', str(error)) from error
            except SpliceError as error:
                raise Unusable('splice', str(error)) from error
            return True

    def _follow(self, stamp: int, state: np.ndarray, targets: np.ndarray, now: int) -> None:
        present = self._streams.present(now)
        if isinstance(present, Refusal):
            raise Unusable(present.code, present.text)
        time, seen = now * 1e-9, stamp * 1e-9
        due = min(self._splicer.first_row(seen, STEP, time), len(targets) - 1)
        checked = self._gate.check(targets[:, :ARM_JOINTS], state, present.joints, due)
        splice = self._splicer.splice(seen, STEP, checked.positions, time, present.joints)
        gripper = self._gripper.splice(
            seen, splice.trajectory.times, targets[splice.rows, GRIPPER], time)
        self._send(stamp, splice.trajectory, gripper)
        self._record(seen, splice, checked.excess)

    def given_up(self, now: int, asking: bool) -> str:
        """Why control must be given up, or nothing. `asking`: chunks are wanted."""
        with self._lock:
            if not (self.armed and asking):
                self._waiting_since = None
                return ''
            if self._waiting_since is None:
                self._waiting_since = now
            limit = self._settings['give_up_age']
            if (now - self._waiting_since) * 1e-9 <= limit:
                return ''
            return f'no usable chunk for {limit:.1f} s (give_up_age)'

    def _record(self, seen: float, splice: Splice, excess: dict[str, float]) -> None:
        times, positions, velocities = (
            splice.trajectory.times, splice.trajectory.positions, splice.trajectory.velocities)
        self._plan = Spline(seen + times, positions, velocities)
        self._waiting_since = round(seen * 1e9)
        figures = self.figures
        figures.trajectories += 1
        figures.excess = max([figures.excess, *excess.items()], key=lambda item: item[1])
        figures.jump = max([figures.jump, splice.seam.position], key=lambda item: item[1])

    def _stop(self, now: float) -> None:
        """Publish a hold: from the measured state, else from the plan, which the arm follows."""
        reading = self._streams.last_joints(within=self._settings['max_joint_age'])
        if reading is not None:
            where = reading.joints, reading.velocities
        elif self._plan is not None:
            where = self._plan.at(now)
        else:
            return
        moved = self._plan is not None
        hold = self._splicer.hold(*where)
        closed = self._gripper.closed_at(now)
        self._gripper.reset(closed)
        position = np.array([self._settings.gripper_range().to_position(float(closed))])
        # A zero stamp is "now" to a controller, whatever the clocks say.
        self._publish_arm(self._arm_message(0, hold))
        if moved:                       # else the gripper was never commanded: leave it alone
            self._publish_gripper(self._gripper_message(0, hold.times, position))

    def _send(self, stamp: int, arm: Trajectory, gripper: tuple[np.ndarray, np.ndarray]) -> None:
        arm_message, gripper_message = (
            self._arm_message(stamp, arm), self._gripper_message(stamp, *gripper))
        self._publish_arm(arm_message)
        self._publish_gripper(gripper_message)

    def _arm_message(self, stamp: int, plan: Trajectory) -> JointTrajectory:
        return joint_trajectory(stamp, self._settings['arm_joints'], plan.times, plan.positions,
                                plan.velocities)

    def _gripper_message(self, stamp: int, times: np.ndarray,
                         positions: np.ndarray) -> JointTrajectory:
        return joint_trajectory(stamp, [self._settings['gripper_joint']], times,
                                positions[:, None])
