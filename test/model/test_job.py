# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""How work is cut into units."""
import pytest

from cosmos3_ros.model.job import pauses


@pytest.mark.parametrize('steps, most', [(28, 22), (27, 15), (28, 1), (28, 28), (5, 100), (3, 0),
                                         (10, 3), (1, 1)])
def test_units_are_alike_and_short_enough(steps, most):
    ends = [0, *sorted(pauses(steps, most)), steps]
    units = [end - start for start, end in zip(ends, ends[1:])]
    assert 0 < min(units) and max(units) <= max(most, 1)
    assert max(units) - min(units) <= 1
    assert (len(units) - 1) * max(most, 1) < steps      # no more of them than it takes
