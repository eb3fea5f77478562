# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A replay through the real node gives the chunks that the replay without ROS gives."""
import numpy as np
import torch

from cosmos3_ros.droid.actions import joint_targets
from cosmos3_ros.droid.recipe import request
from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.job import finish
from cosmos3_ros.replay.bag import Bag
from cosmos3_ros.replay.setup import Setup
from cosmos3_ros.replay.timeline import EveryRows, Taken, walk
from cosmos3_ros.ros.live_replay import play
from cosmos3_ros.sensing.intake import observe
from cosmos3_ros.tasks.policy import policy


def test_live_and_offline_chunks_agree():
    # wide limits: the machine that tests may take long for a chunk
    setup = Setup(max_reply_age=30.0, max_camera_age=1.0, max_joint_age=0.5)
    with Bag('sample') as bag:
        live = play(bag, 'random:tiny', setup, '', 7, 'cpu')
        moments = {one.snapshot.stamp: one for one in walk(bag, setup, EveryRows(1))
                   if isinstance(one, Taken)}
    assert len(live) >= 2 and {chunk.stamp for chunk in live} <= set(moments)
    model = load('random:tiny')
    for chunk in live[:2]:
        moment = moments[chunk.stamp]
        observation = observe(moment.snapshot, moment.instruction, setup.gripper_range())
        with torch.inference_mode():
            rows = finish(policy(model, request(observation, chunk.seed))).actions
        assert np.allclose(chunk.targets, joint_targets(rows), atol=1e-5)
