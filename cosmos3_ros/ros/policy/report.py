# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the policy node says of itself once a second."""
from __future__ import annotations

import time

from cosmos3_ros.ros.diagnostics import Level, Status
from cosmos3_ros.ros.policy.motion import Motion
from cosmos3_ros.ros.policy.requests import Requests
from cosmos3_ros.sensing.streams import JointStream, Refusal, Stream, Streams

LOST = 0.05                             # share of frames whose loss is worth a warning
RECENT = 5.0                            # s for which a fault stays in the report


def running(node: str, streams: Streams, requests: Requests, state: Motion,
            now: int) -> list[Status]:
    """All parts of a configured node; `now`: ns, node clock."""
    return [cameras(node, streams, now), joints(node, streams, now), inference(node, requests),
            motion(node, state)]


def cameras(node: str, streams: Streams, now: int) -> Status:
    """Rates and ages; names the camera that is missing, frozen, or losing frames."""
    status = Status(node, 'cameras')
    for stream in streams.cameras.values():
        _stream(status, stream, streams.limits.camera_age, now)
        lost, sent = stream.losses
        status.value(f'{stream.name} frames lost', f'{lost} of {sent}')
        if sent and lost / sent > LOST:
            status.report(Level.WARN, f'{stream.name}: {lost} of the last {sent} frames were lost '
                          'on the way: set the transport profile in config/fastdds.xml on both '
                          'sides, or use compressed pictures')
    return status


def joints(node: str, streams: Streams, now: int) -> Status:
    """Rate and age of the joint states; names a joint that is missing."""
    status = Status(node, 'joints')
    stream: JointStream = streams.joints
    _stream(status, stream, streams.limits.joint_age, now)
    if stream.latest is not None:
        reading = streams.present(now)
        if isinstance(reading, Refusal) and reading.code != 'age':
            status.report(Level.ERROR, reading.text)
    return status


def _stream(status: Status, stream: Stream, limit: int, now: int) -> None:
    status.value(f'{stream.name} topic', stream.topic)
    status.value(f'{stream.name} rate (Hz)', stream.hertz())
    age = stream.age(now)
    if stream.incompatible:
        status.report(Level.ERROR, f'{stream.name}: {stream.incompatible}')
    if age is None:
        status.report(Level.ERROR, f'{stream.name}: nothing on {stream.topic} yet')
        return
    status.value(f'{stream.name} age (s)', age * 1e-9)
    if age > limit:
        status.report(Level.ERROR, f'{stream.name}: the newest message on {stream.topic} is '
                      f'{age * 1e-9:.2f} s old, wanted at most {limit * 1e-9:.2f}')
    if stream.unstamped:
        status.report(Level.WARN, f'{stream.name}: zero stamps on {stream.topic}, the time of '
                      'receipt is used')


def inference(node: str, requests: Requests) -> Status:
    """Chunks, latencies and drops, and why no observation is taken just now."""
    status, counts = Status(node, 'inference'), requests.counts
    if requests.waiting_for:
        status.report(Level.WARN, requests.waiting_for)
    if counts.fault is not None:
        when, code, text = counts.fault
        if time.monotonic() - when < RECENT and code != 'cancelled':
            severe = code in ('not_finite', 'error')
            status.report(Level.ERROR if severe else Level.WARN, f'{code}: {text}')
    status.value('chunks', counts.chunks)
    status.value('in flight', requests.pipeline.in_flight)
    status.value('max in flight', requests.pipeline.max_in_flight)
    for name, values in (('chunk latency', counts.chunk_latency),
                         ('observation age', counts.observation_age)):
        status.value(f'{name} p50 (ms)', values.p50)
        status.value(f'{name} p99 (ms)', values.p99)
    for code, count in sorted(counts.dropped.items()):
        status.value(f'dropped: {code}', count)
    return status


def motion(node: str, state: Motion) -> Status:
    """Both keys, and the largest correction and seam since activation."""
    status = Status(node, 'motion')
    if state.fault:
        status.report(Level.ERROR, f'disarmed: {state.fault}; call ~/arm again')
    status.value('allow_motion', state.allowed)
    status.value('armed', state.armed)
    status.value('trajectories', state.figures.trajectories)
    for name, (joint, value) in (('largest excess (rad)', state.figures.excess),
                                 ('largest seam jump (rad)', state.figures.jump)):
        status.value(name, f'{value:.4f} {joint}'.rstrip())
    return status
