# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The helper node of a node: what it is called, and what it hears under remapping."""
from rclpy.context import Context
from rclpy.node import Node
from std_msgs.msg import String

from waiting import wait_for


def test_topics_that_are_swapped_by_remapping_are_swapped_once(setup):
    from cosmos3_ros.ros.inputs import Inputs
    context, heard = Context(), {}
    context.init(args=['--ros-args', '-r', 'left:=right', '-r', 'right:=left',
                       '-r', '__node:=robot', '-r', '__ns:=/cell'],
                 domain_id=setup.context.get_domain_id())
    owner = Node('owner', context=context)
    inputs, talker = Inputs(owner), setup.cell.node
    assert inputs.node.get_fully_qualified_name() == '/cell/robot_inputs'
    for name in ('left', 'right'):
        inputs.node.create_subscription(
            String, owner.resolve_topic_name(name),
            lambda message, name=name: heard.update({name: message.data}), 1)
    for name in ('left', 'right'):
        publisher = talker.create_publisher(String, f'/cell/{name}', 1)
        wait_for(publisher.get_subscription_count)
        publisher.publish(String(data=name))
    wait_for(lambda: len(heard) == 2)
    assert heard == {'left': 'right', 'right': 'left'}
    inputs.close()
    owner.destroy_node()
    context.shutdown()
