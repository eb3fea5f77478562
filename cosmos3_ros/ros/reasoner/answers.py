# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Answers as messages: text, figures, and regions in the pictures that were seen."""
from __future__ import annotations

from collections.abc import Sequence

from sensor_msgs.msg import Image
from std_msgs.msg import Header

from cosmos3_ros import msg
from cosmos3_ros.ros.images import from_rgb
from cosmos3_ros.ros.messages import to_time
from cosmos3_ros.ros.reasoner.questions import Seen
from cosmos3_ros.tasks.grounding import draw_regions, find_regions
from cosmos3_ros.tasks.question import Answer, Delta, FinishReason

REASONS = {FinishReason.STOP: msg.Answer.STOP, FinishReason.LENGTH: msg.Answer.LENGTH,
           FinishReason.CANCELLED: msg.Answer.CANCELLED}


def note_pictures(message: msg.Answer, seen: Sequence[Seen]) -> None:
    """Name the pictures and their stamps, in the order of the prompt."""
    message.picture_names = [one.name for one in seen]
    message.picture_stamps = [to_time(one.stamp) for one in seen]


def add(message: msg.Answer, delta: Delta) -> None:
    """Add what was written since the last delta."""
    if delta.thinking:
        message.thinking += delta.text
    else:
        message.text += delta.text
    message.completion_tokens = delta.tokens


def fill(message: msg.Answer, answer: Answer, waited: float) -> None:
    """Set everything but pictures and regions; `waited`: s from arrival to the task."""
    message.text, message.thinking = answer.text, answer.thinking
    message.finish_reason, message.stop = REASONS[answer.finish_reason], answer.stop
    message.prompt_tokens = answer.prompt_tokens
    message.cached_tokens = answer.cached_tokens
    message.completion_tokens = answer.completion_tokens
    message.time_to_first_token = waited + answer.time_to_first_token
    message.tokens_per_second = answer.tokens_per_second


def regions(text: str, seen: Sequence[Seen]) -> list[msg.Region]:
    """Regions that an answer names, in each picture: the model does not say which it means."""
    return [msg.Region(
        kind=msg.Region.BOX if region.is_box else msg.Region.POINT, label=region.label,
        picture=one.name, normalized=region.normalized, pixels=region.pixels)
        for one in newest(seen)
        for region in find_regions(text, one.picture.shape[1], one.picture.shape[0])]


def annotated(answer: msg.Answer, seen: Sequence[Seen]) -> list[Image]:
    """Each picture with the regions drawn on it; its stamp stays.

    Questions may be about one picture: `frame_id` tells which answer it belongs to.
    """
    images = []
    for one in newest(seen):
        height, width = one.picture.shape[:2]
        header = Header(stamp=to_time(one.stamp), frame_id=f'annotated/{answer.id}/{one.name}')
        drawn = draw_regions(one.picture, find_regions(answer.text, width, height))
        images.append(from_rgb(drawn, header))
    return images


def newest(seen: Sequence[Seen]) -> list[Seen]:
    """One picture of each name: the last one of a video."""
    return list({one.name: one for one in seen}.values())
