# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The motion that a bag recorded, at any time."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bag import Bag, BagError
from .setup import Setup


class Motion:
    """Recorded joints over time: arm in rad, gripper 0 open to 1 closed.

    Arm and gripper may come in different messages. Raises BagError if one never came whole.
    """

    def __init__(self, bag: Bag, setup: Setup):
        topic = setup.reference(bag)
        groups = (tuple(setup.arm_joints), (setup.gripper_joint,))
        found: tuple[dict[int, list[float]], ...] = ({}, {})
        for _, time, message in bag.messages([topic]):
            stamp = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec or time
            values = dict(zip(message.name, message.position))
            for group, series in zip(groups, found):
                if all(name in values for name in group):
                    series[stamp] = [float(values[name]) for name in group]
        for group, series in zip(groups, found):
            if not series:
                raise BagError(f'bag {bag.path}: {", ".join(group)} never came in one message on '
                               f'{topic}: name the joints in a file and give it with --topics')
        self._arm, self._gripper = (_series(series) for series in found)
        self._gripper[1][:] = setup.gripper_range().to_fraction(self._gripper[1])

    @property
    def times(self) -> np.ndarray:
        """Stamps of the arm's states (ns), rising."""
        return self._arm[0]

    def at(self, times: Sequence[int] | np.ndarray) -> np.ndarray:
        """Float64 [k, 8] at times in ns, between states in straight lines; NaN outside them."""
        times = np.asarray(times, np.int64)
        columns = []
        for stamps, values in (self._arm, self._gripper):
            origin = stamps[0]                  # small numbers: ns since 1970 do not fit float64
            for column in values.T:
                columns.append(np.interp((times - origin).astype(np.float64),
                                         (stamps - origin).astype(np.float64), column,
                                         left=np.nan, right=np.nan))
        return np.stack(columns, axis=-1)


def _series(found: dict[int, list[float]]) -> tuple[np.ndarray, np.ndarray]:
    stamps = sorted(found)
    return np.array(stamps, np.int64), np.array([found[stamp] for stamp in stamps])
