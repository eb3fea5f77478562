# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The memory that is told before anything is loaded."""
from rclpy.context import Context
from rclpy.parameter import Parameter

PARTS = 'weights of base', 'questions', 'pictures'


def test_node_under_another_name_is_planned_for(setup):
    from cosmos3_ros.ros.memory import plan_memory
    from cosmos3_ros.ros.reasoner.node import ReasonerNode
    context = Context()
    context.init(args=['--ros-args', '-r', 'reasoner:__node:=oracle'],
                 domain_id=setup.context.get_domain_id())
    node = ReasonerNode(setup.engine, setup.library, context=context, parameter_overrides=[
        Parameter('checkpoint', value='random:tiny')])
    assert node.get_name() == 'oracle'
    told = plan_memory([node], setup.engine)
    assert all(part in told for part in PARTS), told
    node.destroy_node()
    context.shutdown()
