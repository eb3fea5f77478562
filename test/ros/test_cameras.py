# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Which pictures of the cameras a node may use."""
import pytest
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image

from waiting import wait_for

S = 10**9               # ns


def make(context, listener=None, **parameters):
    """The cameras of a node that is in a namespace without any."""
    from cosmos3_ros.ros.cameras import Cameras
    from cosmos3_ros.ros.parameters import declare
    from cosmos3_ros.ros.reasoner.settings import REASONER
    node = Node('looker', context=context, namespace='aside', parameter_overrides=[
        Parameter(name, value=value) for name, value in parameters.items()])
    declare(node, REASONER)
    return Cameras(node, listener or node, memory=10.0)


@pytest.fixture
def show(setup):
    """Cameras, and a function that sends them a picture of the wrist with a stamp."""
    cameras = make(setup.context, setup.cell.node)
    publisher = setup.cell.node.create_publisher(Image, '/aside/wrist/image_raw',
                                                 qos_profile_sensor_data)
    wait_for(publisher.get_subscription_count)

    def send(stamp):
        picture = Image()
        picture.header.stamp.sec, picture.header.stamp.nanosec = divmod(stamp, S)
        publisher.publish(picture)
        wait_for(lambda: (newest := cameras._streams['wrist'].latest) and newest.stamp == stamp)

    return cameras, send


def test_picture_from_the_future_is_refused_as_the_policy_does(show):
    from cosmos3_ros.sensing.streams import FUTURE
    cameras, send = show
    send(100 * S)
    assert cameras.newest('wrist', 100 * S - FUTURE).stamp == 100 * S
    for ask in (cameras.newest, lambda name, now: cameras.video(name, 2.0, now)):
        with pytest.raises(ValueError, match='camera wrist: the newest .* 60.00 s in the future'):
            ask('wrist', 40 * S)


def test_video_has_the_first_picture_of_each_half_second(show):
    cameras, send = show
    for tenth in range(972, 1003):
        send(tenth * S // 10)
    stamps = [one.stamp * 10 // S for one in cameras.video('wrist', 2.0, 1002 * S // 10)]
    assert stamps == [985, 990, 995, 1000]      # that of 98.0 is older


def test_video_has_no_picture_from_the_future(show, monkeypatch):
    """The camera's clock jumps ahead while a question takes its video."""
    cameras, send = show
    for second in (98, 99, 100):
        send(second * S)
    newest = cameras.newest

    def jump(name, now):
        found = newest(name, now)
        send(3700 * S)
        return found

    monkeypatch.setattr(cameras, 'newest', jump)
    assert [one.stamp // S for one in cameras.video('wrist', 5.0, 100 * S)] == [98, 99, 100]


def test_transport_that_is_none_is_named_with_those_there_are(setup):
    with pytest.raises(ValueError, match=(
            "parameter cameras.wrist.transport: found 'theora', wanted one of raw, compressed")):
        make(setup.context, **{'cameras.wrist.transport': 'theora'})
