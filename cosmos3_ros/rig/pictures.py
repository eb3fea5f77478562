# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Camera pictures of the cell, taken from a snapshot so that physics can go on meanwhile."""
import mujoco
import numpy as np

MAX_WIDTH, MAX_HEIGHT = 3840, 2160


class Pictures:
    """Renders one model; OpenGL contexts belong to a thread, so make and use it in one thread."""

    def __init__(self, model: mujoco.MjModel):
        self._model = model
        self._data = mujoco.MjData(model)
        self._renderers: dict[tuple[int, int], mujoco.Renderer] = {}

    def place(self, qpos: np.ndarray) -> None:
        """Set the configuration that the next pictures show; qpos: float64 [model.nq]."""
        self._data.qpos[:] = qpos
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)

    def render(self, camera: str, width: int, height: int, shadows: bool = False) -> np.ndarray:
        """Return uint8 [height, width, 3] RGB; shadows cost several times the plain picture."""
        renderer = self._renderer(width, height)
        renderer.update_scene(self._data, camera)
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        return renderer.render()

    def close(self) -> None:
        """Free the OpenGL contexts, in the thread that rendered."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()

    def _renderer(self, width: int, height: int) -> mujoco.Renderer:
        if (width, height) not in self._renderers:
            if not (0 < width <= MAX_WIDTH and 0 < height <= MAX_HEIGHT):
                raise ValueError(f'picture size {width}x{height}: wanted 1x1 to '
                                 f'{MAX_WIDTH}x{MAX_HEIGHT}')
            size = self._model.vis.global_
            size.offwidth, size.offheight = width, height
            self._renderers[width, height] = mujoco.Renderer(self._model, height, width)
        return self._renderers[width, height]


def camera_matrix(model: mujoco.MjModel, camera: str, width: int, height: int) -> np.ndarray:
    """Return the pinhole matrix K, float64 [3, 3] in pixels; pixel centres are whole numbers."""
    focal = height / 2 / np.tan(np.radians(model.camera(camera).fovy[0]) / 2)
    return np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]])
