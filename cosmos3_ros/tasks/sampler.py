# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""UniPC for flow matching: order 2, B(h) = e^h - 1, data prediction, lower order at the end.

W. Zhao et al., "UniPC: A Unified Predictor-Corrector Framework for Fast Sampling of Diffusion
Models", 2023. With a fixed schedule every step is a linear combination with known weights; the
weights are worked out in float64 before the first step.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

TRAIN_TIMESTEPS = 1000


def flow_schedule(steps: int, shift: float) -> tuple[np.ndarray, list[int]]:
    """The native flow schedule: sigmas float32 [steps + 1], the last 0, and integer timesteps."""
    sigmas = np.linspace(1 - 1 / TRAIN_TIMESTEPS, 0, steps + 1)[:-1]
    sigmas = shift * sigmas / (1 + (shift - 1) * sigmas)
    timesteps = [int(t) for t in sigmas * TRAIN_TIMESTEPS]
    return np.append(sigmas, 0).astype(np.float32), timesteps


def guide(velocities: Sequence[Tensor], scale: float) -> Tensor:
    """Classifier-free guidance over [conditional] or [conditional, unconditional]."""
    if len(velocities) == 1:
        return velocities[0]
    conditional, unconditional = velocities
    return unconditional + scale * (conditional - unconditional)


class UniPC:
    """Steps one fp32 state through a schedule; one instance serves one sampling.

    Let x be the state, v its velocity and s its sigma; the data prediction is x - s * v.
    """

    def __init__(self, sigmas: np.ndarray):
        self._sigmas = sigmas.astype(np.float64)
        with np.errstate(divide='ignore'):
            self._lambdas = np.log1p(-self._sigmas) - np.log(self._sigmas)
        self._step = 0
        self._order = 0                     # of the step before
        self._predictions: list[Tensor] = []    # data predictions, newest last
        self._corrected: Tensor | None = None   # state that the step before started from

    def step(self, velocity: Tensor, x: Tensor) -> Tensor:
        """Advance by one step: `velocity` was computed at `x`; returns the next state."""
        i = self._step
        prediction = x - float(self._sigmas[i]) * velocity
        if i > 0:
            x = self._correct(i, prediction)
        self._predictions = [*self._predictions[-1:], prediction]
        self._order = min(2, i + 1, len(self._sigmas) - 1 - i)
        self._corrected = x
        self._step += 1
        return self._predict(i, x)

    def _predict(self, i: int, x: Tensor) -> Tensor:
        keep, data, h = self._base(i, i + 1)
        newest = self._predictions[-1]
        result = keep * x + data * newest
        if self._order == 2:
            ratio = self._ratio(i - 1, i, h)
            result += 0.5 * data / ratio * (self._predictions[-2] - newest)
        return result

    def _correct(self, i: int, prediction: Tensor) -> Tensor:
        keep, data, h = self._base(i - 1, i)
        last = self._predictions[-1]
        result = keep * self._corrected + data * last
        if self._order == 1:
            return result + 0.5 * data * (prediction - last)
        ratio = self._ratio(i - 2, i - 1, h)
        older, newer = self._corrector_weights(ratio, h)
        result += older * data / ratio * (self._predictions[-2] - last)
        return result + newer * data * (prediction - last)

    def _base(self, start: int, end: int) -> tuple[float, float, float]:
        """Weights of the state and of the data prediction from one sigma to the next, and h.

        The weight of the data is -alpha * (e^-h - 1), which is also the factor -alpha * B(h) of
        every correction.
        """
        h = self._lambdas[end] - self._lambdas[start]
        keep = self._sigmas[end] / self._sigmas[start]
        return float(keep), float(-(1 - self._sigmas[end]) * np.expm1(-h)), float(h)

    def _ratio(self, older: int, start: int, h: float) -> float:
        return float((self._lambdas[older] - self._lambdas[start]) / h)

    @staticmethod
    def _corrector_weights(ratio: float, h: float) -> tuple[float, float]:
        """Solve the order conditions of UniC-2 for the older and the newer difference."""
        phi = np.expm1(-h)
        first = phi / -h - 1
        second = first / -h - 0.5
        return tuple(np.linalg.solve([[1, 1], [ratio, 1]], [first / phi, 2 * second / phi]))
