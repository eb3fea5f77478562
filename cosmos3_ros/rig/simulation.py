# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The cell in motion: joint set points in, joint readings and pictures out."""
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from cosmos3_ros.rig.pictures import Pictures

ARM_JOINTS = tuple(f'panda_joint{i}' for i in range(1, 8))
GRIPPER_JOINT = 'finger_joint'
JOINTS = (*ARM_JOINTS, GRIPPER_JOINT)
CAMERAS = ('wrist', 'exterior_left', 'exterior_right')
# DROID's reset pose (rad), fingers down and open.
HOME = dict(zip(JOINTS, (0.0, -np.pi / 5, 0.0, -4 * np.pi / 5, 0.0, 3 * np.pi / 5, 0.0, 0.0)))


@dataclass(frozen=True)
class JointReading:
    """All joints in the order of JOINTS: rad, rad/s, N m (effort includes gravity)."""

    time: float
    positions: np.ndarray
    velocities: np.ndarray
    efforts: np.ndarray


class Cell:
    """One DROID cell. Not thread-safe; for pictures in another thread give `qpos` to Pictures."""

    def __init__(self):
        self.model = mujoco.MjModel.from_xml_path(str(Path(__file__).with_name('cell.xml')))
        self.data = mujoco.MjData(self.model)
        joints = [self.model.joint(name) for name in JOINTS]
        self._qpos = np.array([joint.qposadr[0] for joint in joints])
        self._dof = np.array([joint.dofadr[0] for joint in joints])
        self.position_limits = np.array([joint.range for joint in joints])  # rad [8, 2]
        self.velocity_limits = np.array([joint.user[0] for joint in joints])  # rad/s [8]
        self.effort_limits = self.model.jnt_actfrcrange[[joint.id for joint in joints], 1]  # N m
        # A position actuator trails a moving set point by kv / kp seconds: lead it by as much.
        self._lead = -self.model.actuator_biasprm[:, 2] / self.model.actuator_gainprm[:, 0]
        self._pictures: Pictures | None = None
        self.reset()

    def reset(self) -> None:
        """Put the arm at HOME at rest, the objects at their places, and the time to 0."""
        mujoco.mj_resetData(self.model, self.data)
        home = np.array(list(HOME.values()))
        self.data.qpos[self._qpos] = home
        self._setpoint, self._target = home.copy(), home.copy()
        self._rate = np.zeros(len(JOINTS))
        self.data.ctrl[:] = home
        mujoco.mj_forward(self.model, self.data)

    @property
    def time(self) -> float:
        """Seconds simulated since reset."""
        return self.data.time

    @property
    def qpos(self) -> np.ndarray:
        """Copy of the whole configuration, for Pictures.place."""
        return self.data.qpos.copy()

    @property
    def gripper(self) -> float:
        """Gripper joint position in rad: 0 open, 0.8 closed."""
        return float(self.data.qpos[self._qpos[-1]])

    def positions(self) -> dict[str, float]:
        """Joint positions by name (rad)."""
        return dict(zip(JOINTS, self.data.qpos[self._qpos].tolist()))

    def velocities(self) -> dict[str, float]:
        """Joint velocities by name (rad/s)."""
        return dict(zip(JOINTS, self.data.qvel[self._dof].tolist()))

    def read(self) -> JointReading:
        """Return what a joint state broadcaster would say now."""
        data = self.data
        return JointReading(data.time, data.qpos[self._qpos], data.qvel[self._dof],
                            data.qfrc_actuator[self._dof])

    def set_target(self, positions: Mapping[str, float], over: float = 0.0) -> None:
        """Move the set points of the named joints (rad) in a straight line within `over` seconds.

        Targets stop at the position limits, set points move no faster than the velocity limits.
        Raises ValueError for an unknown joint or a value that is not finite.
        """
        for name, value in positions.items():
            if name not in JOINTS:
                raise ValueError(f'joint {name!r} is not in the cell: wanted one of {JOINTS}')
            if not np.isfinite(value):
                raise ValueError(f'target of {name} is {value}: wanted a finite angle in rad')
            self._target[JOINTS.index(name)] = value
        self._target.clip(*self.position_limits.T, out=self._target)
        distance = np.abs(self._target - self._setpoint)
        wanted = distance / over if over > 0 else self.velocity_limits
        self._rate = np.minimum(wanted, self.velocity_limits)

    def step(self, seconds: float) -> None:
        """Advance the simulation by `seconds`, rounded to whole physics steps of 2 ms."""
        dt = self.model.opt.timestep
        for _ in range(round(seconds / dt)):
            move = np.clip(self._target - self._setpoint, -self._rate * dt, self._rate * dt)
            self._setpoint += move
            self.data.ctrl[:] = self._setpoint + self._lead * move / dt
            mujoco.mj_step(self.model, self.data)

    def render(self, camera: str, width: int, height: int, shadows: bool = False) -> np.ndarray:
        """Return uint8 [height, width, 3] RGB of the present moment; always from one thread."""
        self._pictures = self._pictures or Pictures(self.model)
        self._pictures.place(self.data.qpos)
        return self._pictures.render(camera, width, height, shadows)

    def close(self) -> None:
        """Free the OpenGL contexts of `render`."""
        if self._pictures is not None:
            self._pictures.close()
