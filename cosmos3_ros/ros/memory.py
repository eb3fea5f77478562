# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The memory that the nodes of a process will take, told before any of them loads."""
from __future__ import annotations

from collections.abc import Sequence

from rclpy.node import Node

from cosmos3_ros.engine.device import pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.memory import plan
from cosmos3_ros.engine.sessions import free_bytes
from cosmos3_ros.model.checkpoint import open_checkpoint
from cosmos3_ros.model.config import CheckpointError
from cosmos3_ros.ros.policy.node import PolicyNode
from cosmos3_ros.ros.reasoner.node import ReasonerNode
from cosmos3_ros.ros.world_model.node import WorldModelNode


def plan_memory(nodes: Sequence[Node], engine: Engine) -> str:
    """The plan as a line. Raises MemoryPlanError if it does not fit.

    Empty if a checkpoint is missing or cannot be opened: its node says why when it is configured.
    """
    by_kind = {type(node): node for node in nodes}

    def value(kind: type[Node], parameter: str, default=0):
        return by_kind[kind].get_parameter(parameter).value if kind in by_kind else default

    base = value(ReasonerNode, 'checkpoint', '') or value(WorldModelNode, 'checkpoint', '')
    policy = value(PolicyNode, 'policy_checkpoint', '') or value(PolicyNode, 'checkpoint', '')
    references = {'base': base, 'policy': policy if policy != base else ''}
    dtype = pick_dtype(nodes[0].get_parameter('precision').value, engine.device)
    try:
        opened = {name: open_checkpoint(reference, engine.device)
                  for name, reference in references.items() if reference}
    except CheckpointError:
        opened = {}
    if not opened:
        return ''
    found = plan(opened, dtype, chunks=value(PolicyNode, 'chunks_in_flight'),
                 slots=value(ReasonerNode, 'question_slots'),
                 length=value(ReasonerNode, 'question_length'),
                 fp8_decode=value(ReasonerNode, 'fp8_decode', False) and (
                     engine.device.type == 'cuda'),
                 sessions=value(WorldModelNode, 'session_limit'),
                 graphs=engine.device.type == 'cuda')
    free = free_bytes(engine.device)
    found.check(free, str(engine.device))
    return f'memory: {found}; {free / 1e9:.2f} GB are free on {engine.device}'
