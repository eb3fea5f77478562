# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Bags that are read, and bags that are refused with what to do."""
import shutil

import pytest
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, StoragePlugin, Writer

from cosmos3_ros.replay import setup
from cosmos3_ros.replay.bag import SAMPLE, Bag, BagError
from cosmos3_ros.replay.timeline import EveryRows, walk


def copied(target, storage, mode=CompressionMode.NONE, leave_out=''):
    """The sample in another storage; returns its path."""
    with Reader(SAMPLE) as reader, _writer(target, storage, mode) as writer:
        connections = {
            one.topic: writer.add_connection(one.topic, one.msgtype, msgdef=one.msgdef.data,
                                             rihs01=one.digest)
            for one in reader.connections if one.topic != leave_out}
        for connection, time, data in reader.messages():
            if connection.topic != leave_out:
                writer.write(connections[connection.topic], time, data)
    return target


def _writer(target, storage, mode):
    writer = Writer(target, version=9, storage_plugin=storage)
    writer.set_compression(mode, CompressionFormat.ZSTD)
    return writer


def stamps(path):
    with Bag(path) as bag:
        return [(moment.snapshot.stamp, moment.snapshot.reading.joints.tolist())
                for moment in walk(bag, setup.Setup(), EveryRows(16))]


@pytest.mark.parametrize('storage, mode', [
    (StoragePlugin.SQLITE3, CompressionMode.NONE), (StoragePlugin.SQLITE3, CompressionMode.FILE),
    (StoragePlugin.SQLITE3, CompressionMode.MESSAGE), (StoragePlugin.MCAP, CompressionMode.FILE),
    (StoragePlugin.MCAP, CompressionMode.STORAGE)])
def test_storage_and_compression_make_no_difference(tmp_path, storage, mode):
    wanted = stamps('sample')
    assert len(wanted) == 6 and stamps(copied(tmp_path / 'bag', storage, mode)) == wanted


def test_single_file_is_read():
    assert stamps(next(SAMPLE.glob('*.mcap'))) == stamps('sample')


def ros1(folder):
    (folder / 'old.bag').write_bytes(b'#ROSBAG V2.0\n')
    return folder / 'old.bag'


def pointer(folder):
    (folder / 'a.mcap').write_bytes(b'version https://git-lfs.github.com/spec/v1\noid sha256:0\n')
    return folder / 'a.mcap'


def no_metadata(folder):
    shutil.copy(next(SAMPLE.glob('*.mcap')), folder / 'a.mcap')
    return folder


def cut_short(folder):
    (folder / 'a.mcap').write_bytes(next(SAMPLE.glob('*.mcap')).read_bytes()[:100_000])
    return folder / 'a.mcap'


@pytest.mark.parametrize('make, advice', [
    (ros1, 'rosbags-convert'), (pointer, 'git lfs pull'), (no_metadata, 'ros2 bag reindex'),
    (cut_short, 'mcap recover'), (lambda folder: folder / 'none', 'no such file')])
def test_refusal_says_what_to_run(tmp_path, make, advice):
    with pytest.raises(BagError, match=advice):
        Bag(make(tmp_path))


def test_missing_topic_is_named_beside_those_there(tmp_path):
    path = copied(tmp_path / 'bag', StoragePlugin.MCAP, leave_out='/joint_states')
    with Bag(path) as bag, pytest.raises(BagError, match='no /joint_states .*/wrist/image_raw'):
        list(walk(bag, setup.Setup(), EveryRows(8)))


def test_missing_instruction_asks_for_one(tmp_path):
    path = copied(tmp_path / 'bag', StoragePlugin.MCAP, leave_out='/policy/instruction')
    with Bag(path) as bag, pytest.raises(BagError, match='--instruction'):
        list(walk(bag, setup.Setup(), EveryRows(8)))


def test_map_and_parameter_file_name_topics(tmp_path):
    (tmp_path / 'map.yaml').write_text('cameras: {wrist: /hand}\ngripper_closed: 1.0\n')
    found = setup.read(tmp_path / 'map.yaml')
    assert found.cameras['wrist'] == '/hand' and found.gripper_closed == 1.0
    (tmp_path / 'node.yaml').write_text(
        '/**: {ros__parameters: {checkpoint: a, max_skew: 0.2, cameras: {wrist: {topic: b}}}}')
    found = setup.read(tmp_path / 'node.yaml')
    assert found.cameras['wrist'] == 'b' and found.max_skew == 0.2
    (tmp_path / 'map.yaml').write_text('camera: {}')
    with pytest.raises(ValueError, match='found camera, wanted a map'):
        setup.read(tmp_path / 'map.yaml')


def test_limits_are_those_of_the_live_node():
    from cosmos3_ros.ros.policy.settings import POLICY
    values = setup.Setup()
    names = ('joint_states_topic', 'gripper_joint', 'gripper_open', 'gripper_closed',
             'max_camera_age', 'max_joint_age', 'max_skew', 'max_reply_age', 'chunks_in_flight')
    assert all(getattr(values, name) == POLICY[name].default for name in names)
    assert list(values.arm_joints) == POLICY['arm_joints'].default
    assert values.cameras == {name: POLICY[f'cameras.{name}.topic'].default
                              for name in values.cameras}
