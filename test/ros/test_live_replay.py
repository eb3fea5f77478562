# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A replay through the real node gives the chunks that the replay without ROS gives."""
from dataclasses import replace

from builtin_interfaces.msg import Time
import numpy as np
import torch

from cosmos3_ros.droid.actions import joint_targets
from cosmos3_ros.droid.recipe import request
from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.job import finish
from cosmos3_ros.replay.bag import Bag
from cosmos3_ros.replay.setup import Setup
from cosmos3_ros.replay.timeline import EveryRows, Taken, walk
from cosmos3_ros.ros.diagnostics import Level, Status, diagnostic_array
from cosmos3_ros.ros.live_replay import Drops, play
from cosmos3_ros.sensing.intake import observe
from cosmos3_ros.tasks.policy import policy


class Stopping(Bag):
    """The sample, whose left camera stops after 5 s."""

    def messages(self, topics):
        for topic, time, message in super().messages(topics):
            if 'left' not in topic or time < self.start + 5_000_000_000:
                yield topic, time, message


def joint_readings(bag, setup):
    """Joint states of a bag by their stamps."""
    joints = setup.streams(bag, float).joints
    readings = {}
    for _, time, message in bag.messages([joints.topic]):
        joints.put(message, time)
        reading = joints.nearest(None)
        readings[reading.stamp] = reading
    return readings


def test_live_and_offline_chunks_agree():
    # wide limits: the machine that tests may take long for a chunk
    setup = Setup(max_reply_age=30.0, max_camera_age=1.0, max_joint_age=0.5)
    with Stopping('sample') as bag:
        live, drops = play(bag, 'random:tiny', setup, '', 7, 'cpu')
        moments = {one.snapshot.stamp: one for one in walk(bag, setup, EveryRows(1))
                   if isinstance(one, Taken)}
        readings = joint_readings(bag, setup)
    assert len(live) >= 2 and {chunk.stamp for chunk in live} <= set(moments)
    # the node's report of a second has every count, and the text of its newest drop alone
    assert drops.counts['skew'] > 0 and drops.examples.keys() == drops.counts.keys()
    assert live[0].refused <= live[-1].refused <= drops.counts.total()
    model = load('random:tiny')
    for chunk in live[:2]:
        moment = moments[chunk.stamp]
        # over ROS the joint state of a picture's time may come after it: one before it is taken
        snapshot = replace(moment.snapshot, reading=readings[chunk.inputs['joint_states']])
        assert chunk.inputs == snapshot.stamps
        observation = observe(snapshot, moment.instruction, setup.gripper_range())
        with torch.inference_mode():
            rows = finish(policy(model, request(observation, chunk.seed))).actions
        assert np.allclose(chunk.targets, joint_targets(rows), atol=1e-5)


def test_newest_counts_and_reasons_of_the_node_stay():
    drops = Drops()
    for count, text in ((1, 'skew: exterior_left is 80 ms off'), (4, 'late: chunk 7 came late')):
        status = Status('/policy', 'inference')
        status.report(Level.WARN, text)
        status.value('chunks', 9)
        status.value('dropped: skew', count)
        status.value('dropped: late', count - 1)
        drops.hear(diagnostic_array(Time(), [Status('/policy', 'model'), status]))
    assert drops.counts == {'skew': 4, 'late': 3}
    assert drops.examples == {'skew': 'exterior_left is 80 ms off', 'late': 'chunk 7 came late'}
