# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What of a result can be paired with another one of the same bag."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import questions, runner, world

Rows = dict         # key -> figure -> value, None where there is none
POLICY = {
    'joint_error': ('joint error', 'rad', -1), 'hold_error': ('holding still', 'rad', 0),
    'gripper_agreement': ('gripper agrees', 'share', 1), 'seam_jump': ('seam jump', 'rad', -1),
    'disagreement': ('overlaps differ by', 'rad', -1), 'jerk': ('jerk', 'rad/s³', -1),
    'refused': ('refused observations', 'a chunk', -1), 'latency': ('latency', 's', -1)}


@dataclass(frozen=True)
class Kind:
    """A kind of result: what pairs are called, the settings that must agree, and its rows.

    `series`: neighbouring pairs depend on each other, as moments of one episode do.
    `figures`: name -> label, unit, and 1 where more is better, -1 where less is, 0 for neither.
    """

    pairs: str
    series: bool
    same: tuple[str, ...]
    figures: Callable[[dict], dict[str, tuple[str, str, int]]]
    rows: Callable[[dict], Rows]


def _policy_figures(result: dict) -> dict[str, tuple[str, str, int]]:
    joints = {f'error {name}': (f'error {name}', 'rad', -1)
              for name in result['settings']['setup']['arm_joints']}
    return {'joint_error': POLICY['joint_error']} | joints | POLICY


def _chunks(result: dict) -> Rows:
    names = [f'error {name}' for name in result['settings']['setup']['arm_joints']]
    return {chunk['stamp']: chunk | dict(zip(names, chunk['by_joint'])) | {'latency': seconds}
            for chunk, seconds in zip(result['chunks'], result['timing']['chunk_latency_s'])}


def _frames(result: dict) -> Rows:
    """All frames but the given one."""
    figures = {name: result['scores'][name] for name in ('psnr', 'ssim', 'drift')}
    return {stamp: {name: values[index] for name, values in figures.items()}
            for index, stamp in enumerate(result['frames']['stamps']) if index}


def _answers(result: dict) -> Rows:
    return {f'{one["text"]} at {one["at"]:g} s ({", ".join(one["cameras"])})':
            {'exact': float(one['exact']), 'fuzzy': one['fuzzy']}
            for one in result['questions']}


KINDS = {
    runner.FORMAT: Kind('chunks', True, (), _policy_figures, _chunks),
    world.FORMAT: Kind('frames', True, ('camera',), lambda _: {
        'psnr': ('PSNR', 'dB', 1), 'ssim': ('SSIM', '', 1),
        'drift': ('colour drift', 'levels', -1)}, _frames),
    questions.FORMAT: Kind('questions', False, (), lambda _: {
        'exact': ('exact answers', 'share', 1), 'fuzzy': ('likeness', 'share', 1)}, _answers)}
