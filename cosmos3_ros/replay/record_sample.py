# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Records the sample bag: the cell, a scripted reach and grasp, JPEG pictures, simulated time."""
from __future__ import annotations

from pathlib import Path
import shutil
import sys

import cv2
import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from cosmos3_ros.rig.simulation import ARM_JOINTS, CAMERAS, GRIPPER_JOINT, JOINTS, Cell

START = 1_760_000_000_000_000_000       # ns
INSTRUCTION = 'Pick up the banana and place it in the bowl'
# (s, arm joints added to the reset pose in rad, gripper in rad)
SCRIPT = ((0.0, (0, 0, 0, 0, 0, 0, 0), 0.0), (2.0, (.25, .45, .05, -.1, 0, .5, .2), 0.0),
          (3.0, (.25, .6, .05, -.1, 0, .65, .2), 0.0), (3.6, (.25, .6, .05, -.1, 0, .65, .2), 0.8),
          (5.0, (-.2, .2, 0, .1, 0, .2, 0), 0.8), (5.6, (-.2, .2, 0, .1, 0, .2, 0), 0.0),
          (6.4, (0, 0, 0, 0, 0, 0, 0), 0.0))


def record(path: Path) -> None:
    """Write the bag; what is there is replaced."""
    types, cell = get_typestore(Stores.ROS2_JAZZY), Cell()
    home = np.array([cell.positions()[name] for name in ARM_JOINTS])
    knots = np.array([knot[0] for knot in SCRIPT])
    arm = home + np.array([knot[1] for knot in SCRIPT], float)
    grip = np.array([knot[2] for knot in SCRIPT])
    shutil.rmtree(path, ignore_errors=True)
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topics = {name: f'/{name}/image_raw/compressed' for name in CAMERAS}
        kinds = dict.fromkeys(topics.values(), 'sensor_msgs/msg/CompressedImage') | {
            '/joint_states': 'sensor_msgs/msg/JointState',
            '/policy/instruction': 'std_msgs/msg/String'}
        connections = {topic: writer.add_connection(topic, kind, typestore=types)
                       for topic, kind in kinds.items()}

        def write(topic: str, now: int, **fields) -> None:
            if 'String' not in kinds[topic]:
                stamp = types.types['builtin_interfaces/msg/Time'](now // 10**9, now % 10**9)
                fields['header'] = types.types['std_msgs/msg/Header'](stamp, '')
            message = types.types[kinds[topic]](**fields)
            writer.write(connections[topic], now, types.serialize_cdr(message, kinds[topic]))

        write('/policy/instruction', START, data=INSTRUCTION)
        for tick in range(1, round(knots[-1] * 60)):
            due = tick / 60 + 1 / 60
            target = [np.interp(due, knots, column) for column in (*arm.T, grip)]
            cell.set_target(dict(zip((*ARM_JOINTS, GRIPPER_JOINT), target)), over=1 / 60)
            cell.step(tick / 60 - cell.time)
            now, reading = START + round(tick / 60 * 1e9), cell.read()
            write('/joint_states', now, name=list(JOINTS), position=reading.positions,
                  velocity=reading.velocities, effort=reading.efforts)
            if tick % 4 == 0:
                for name, topic in topics.items():
                    picture = cv2.cvtColor(cell.render(name, 320, 180), cv2.COLOR_RGB2BGR)
                    _, data = cv2.imencode('.jpg', picture, [cv2.IMWRITE_JPEG_QUALITY, 80])
                    write(topic, now, format='rgb8; jpeg compressed bgr8', data=data)
    cell.close()


if __name__ == '__main__':
    record(Path(sys.argv[1]))
