# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A Question message in the terms of the task, with the pictures that it is about."""
from __future__ import annotations

from dataclasses import dataclass
import math
import secrets

import numpy as np
from sensor_msgs.msg import CompressedImage

from cosmos3_ros import msg
from cosmos3_ros.ros.cameras import VIDEO_FPS, Cameras
from cosmos3_ros.sensing.images import ImageError, to_rgb
from cosmos3_ros.sensing.streams import Received, nanoseconds
from cosmos3_ros.tasks.question import Question, Video


@dataclass(frozen=True)
class Seen:
    """A picture of a question: uint8 [H, W, 3] RGB, its name and header stamp (ns)."""

    name: str
    stamp: int
    picture: np.ndarray


def prepare(message: msg.Question, cameras: Cameras, now: int,
            max_tokens: int) -> tuple[Question, list[Seen]]:
    """The question, and all pictures of it in the order of the prompt.

    `now` in ns; `max_tokens` holds for a message without a limit. Raises ValueError, an
    ImageError among them, which names the picture or the field that does not fit.
    """
    _check(message)
    sent = [_sent(i, picture) for i, picture in enumerate(message.pictures)]
    asked = [*message.cameras, *(one.name for one in sent)]
    if twice := {name for name in asked if asked.count(name) > 1}:
        raise ValueError(f'pictures: more than one is named {", ".join(sorted(twice))}, wanted '
                         'different names: regions are told by them')
    taken = [_taken(name, message.video_seconds, cameras, now) for name in message.cameras]
    if message.video_seconds:
        videos, pictures = taken, sent
        seen = [*sent, *(frame for frames in taken for frame in frames)]
    else:
        videos, pictures = [], [*(frames[0] for frames in taken), *sent]
        seen = pictures
    return Question(
        text=message.text, pictures=tuple(one.picture for one in pictures),
        videos=tuple(_video(frames) for frames in videos), thinking=message.thinking,
        max_tokens=message.max_tokens or max_tokens, temperature=message.temperature,
        top_p=message.top_p or 1.0, top_k=message.top_k, stop=tuple(message.stop),
        seed=message.seed if message.seed >= 0 else secrets.randbits(31)), seen


def _check(message: msg.Question) -> None:
    """What can be said before any picture is decoded."""
    if not message.text.strip():
        raise ValueError('text: empty, wanted a question')
    seconds = message.video_seconds
    if not 0 <= seconds < math.inf:
        raise ValueError(f'video_seconds: found {seconds}, wanted a number from 0 on')
    if seconds and not message.cameras:
        raise ValueError(f'video_seconds: found {seconds} without a camera, name one in cameras')


def _sent(i: int, message: CompressedImage) -> Seen:
    name = message.header.frame_id or f'picture_{i}'
    return _decoded(name, nanoseconds(message.header.stamp), message)


def _taken(name: str, seconds: float, cameras: Cameras, now: int) -> list[Seen]:
    """The newest picture of a camera, or its video."""
    if seconds > cameras.memory:
        raise ValueError(f'video_seconds: found {seconds}, wanted at most the parameter '
                         f'video_memory, which is {cameras.memory}')
    received: list[Received] = (cameras.video(name, seconds, now) if seconds
                                else [cameras.newest(name, now)])
    return [_decoded(name, one.stamp, one.message) for one in received]


def _decoded(name: str, stamp: int, message) -> Seen:
    try:
        return Seen(name, stamp, to_rgb(message))
    except ImageError as error:
        raise ImageError(f'{name}: {error}') from error


def _video(frames: list[Seen]) -> Video:
    """Frames with the rate at which they really came; 2 a second, or a slower camera's."""
    shapes = {one.picture.shape for one in frames}
    if len(shapes) > 1:
        raise ValueError(f'{frames[0].name}: the pictures of the video differ in size: '
                         f'{", ".join(map(str, sorted(shapes)))}')
    took = (frames[-1].stamp - frames[0].stamp) * 1e-9
    rate = (len(frames) - 1) / took if took > 0 else VIDEO_FPS
    return Video(np.stack([one.picture for one in frames]), min(VIDEO_FPS, rate))
