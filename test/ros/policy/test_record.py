# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What is recorded of a policy node can be replayed."""
from cosmos3_ros.replay.bag import Bag
from cosmos3_ros.replay.setup import Setup
from cosmos3_ros.replay.timeline import EveryRows, Taken, walk
from cosmos3_ros.ros.record import CHUNK, Recorder
from waiting import wait_for


def test_recording_holds_what_the_policy_saw_and_said(setup, tmp_path):
    setup.cell.say('pick up the cup')
    recorder = Recorder(tmp_path / 'bag', Setup(), context=setup.context)
    setup.spin(recorder)
    setup.policy_node()
    wait_for(lambda: recorder.counts.get('/policy/action_chunk', 0) > 3
             and recorder.counts.get('/policy/instruction'))
    recorder.finish()
    with Bag(tmp_path / 'bag') as bag:
        assert bag.topics['/policy/action_chunk'] == CHUNK
        taken = [one for one in walk(bag, Setup(max_camera_age=5.0, max_joint_age=5.0),
                                     EveryRows(1)) if isinstance(one, Taken)]
    assert taken and taken[0].instruction == 'pick up the cup'
    assert taken[0].snapshot.reading.joints.tolist() == list(setup.cell.pose[:7])
