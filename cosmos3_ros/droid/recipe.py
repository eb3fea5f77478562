# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""How a DROID policy is asked."""
from __future__ import annotations

from ..tasks.canvas import canvas_size
from ..tasks.policy import PolicyRecipe, PolicyRequest
from .actions import WIDTH, state_row
from .compose import COMPOSED_SIZE, compose
from .observation import Observation
from .prompt import prompt

RECIPE = PolicyRecipe(
    num_frames=33, fps=15.0, tier=480, steps=4, shift=5.0, guidance=3.0,
    guidance_interval=(960.0, 1001.0), domain=8, action_width=WIDTH, action_offset=0)

STEP = 1 / RECIPE.fps  # s between action rows


def request(observation: Observation, seed: int) -> PolicyRequest:
    """The network's request for an observation; `seed` is that of the noise."""
    return PolicyRequest(
        picture=compose(observation.pictures),
        prompt=prompt(observation.instruction, canvas_size(*COMPOSED_SIZE, RECIPE.tier)),
        state=state_row(observation.joints, observation.gripper),
        seed=seed, recipe=RECIPE)
