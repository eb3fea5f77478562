# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Boxes and points of an answer, in pixels of the pictures and drawn on them."""
import json
import math

import numpy as np
import pytest
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from waiting import wait_for

CUP = '[{"bbox_2d": [100, 500, 300, 1000], "label": "cup"}, {"point_2d": [500, 250]}]'


class Oracle:
    """Stands in for the Reasoner: knows the answer to every question."""

    def __init__(self, model, start, *, slots, length, fp8_decode):
        self.questions = []

    def submit(self, question):
        from cosmos3_ros.tasks.open_question import Handle
        from cosmos3_ros.tasks.question import Answer, Delta, FinishReason
        self.questions.append(question)
        text = f'Here: {CUP} 杯 🍵' if 'cup' in question.text else 'No.'
        handle = Handle()
        handle.tell(Delta(text, False, 5))
        handle.end(Answer(
            text=text, thinking='', finish_reason=FinishReason.STOP, stop='.', prompt_tokens=7,
            cached_tokens=3, token_ids=(1, 2, 3, 4, 5), time_to_first_token=0.25,
            tokens_per_second=math.nan))
        return handle


@pytest.fixture
def shown(desk, monkeypatch):
    """A desk whose node knows all answers, and what it publishes on ~/annotated."""
    monkeypatch.setattr('cosmos3_ros.ros.reasoner.node.Reasoner', Oracle)
    images = []
    desk.setup.cell.node.create_subscription(Image, 'reasoner/annotated', images.append, 16)
    desk.node()
    desk.wait_for_pictures()
    return desk, images


def sent(name, height, width):
    from cosmos3_ros.ros.images import compress
    header = Header(frame_id=name)
    header.stamp.sec = 12
    return compress(np.zeros((height, width, 3), np.uint8), header, 'png')


def test_regions_are_told_in_pixels_of_every_picture(shown):
    from cosmos3_ros.msg import Region
    desk, images = shown
    answer = desk.ask('Where is the cup?', cameras=['wrist'], pictures=[sent('shelf', 200, 400)])
    assert [(one.picture, one.kind, one.label) for one in answer.regions] == [
        ('wrist', Region.BOX, 'cup'), ('wrist', Region.POINT, ''),
        ('shelf', Region.BOX, 'cup'), ('shelf', Region.POINT, '')]
    box, point = answer.regions[2:]
    assert list(box.normalized) == json.loads(CUP)[0]['bbox_2d']
    assert list(box.pixels) == [40, 100, 120, 200] and list(point.pixels) == [200, 50]
    wrist = answer.regions[0]                               # the cell's pictures are 64x36
    assert list(wrist.pixels) == pytest.approx([6.4, 18, 19.2, 36])
    assert not images                                       # nobody asked for them


def test_annotated_pictures_keep_their_stamps_and_show_the_regions(shown):
    desk, images = shown
    answer = desk.ask('Where is the cup?', pictures=[sent('shelf', 200, 400)],
                      cameras=['wrist'], annotate=True)
    wait_for(lambda: len(images) == 2)
    assert [image.header.stamp for image in images] == list(answer.picture_stamps)
    image = images[1]
    assert image.header.stamp.sec == 12
    pixels = np.frombuffer(image.data, np.uint8).reshape(200, 400, 3)
    assert pixels[150, 40].any() and pixels[150, 120].any()     # the sides of the box
    assert not pixels[150, 80].any() and not pixels[30, 300].any()


def test_annotated_pictures_are_told_apart_and_belong_to_an_answer(shown):
    """Two questions about pictures without name and stamp; one of them has two."""
    desk, images = shown
    nameless = [sent('', 20, 30), sent('', 40, 50)]
    asked = [desk.ask('Where is the cup?', pictures=pictures, annotate=True)
             for pictures in (nameless, nameless[:1])]
    wait_for(lambda: len(images) == 3)
    assert {(image.header.frame_id, image.height) for image in images} == {
        (f'annotated/{asked[0].id}/picture_0', 20), (f'annotated/{asked[0].id}/picture_1', 40),
        (f'annotated/{asked[1].id}/picture_0', 20)}
    assert '' != asked[0].id != asked[1].id != ''


def test_answer_carries_everything_the_task_said(shown):
    from cosmos3_ros.msg import Answer
    desk, _ = shown
    answer = desk.ask('Where is the cup?')
    assert answer.text == f'Here: {CUP} 杯 🍵' and answer.finish_reason == Answer.STOP
    assert (answer.stop, answer.error, answer.thinking) == ('.', '', '')
    assert (answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens) == (7, 3, 5)
    assert 0.25 <= answer.time_to_first_token < 5       # from arrival, not from the hand-over
    assert math.isnan(answer.tokens_per_second)
    assert not answer.regions                           # without a picture there is none
    handle, feedback = desk.send('Where is the cup?')
    assert desk.ended(handle)[1].text == answer.text
    wait_for(lambda: feedback)
    assert feedback[0].delta == answer.text


def test_fields_that_are_0_take_their_defaults(shown):
    desk, _ = shown
    node = desk.setup._nodes[-1]
    node._server.reasoner.questions.clear()
    desk.ask('a', seed=5, stop=['x', 'y'], top_k=3, temperature=0.5, thinking=True)
    desk.ask('b', seed=-1, max_tokens=9, top_p=0.75)
    desk.ask('c', seed=-1)
    first, second, third = node._server.reasoner.questions
    assert (first.top_p, first.max_tokens, first.seed) == (1.0, 16, 5)
    assert (first.stop, first.top_k, first.temperature) == (('x', 'y'), 3, 0.5)
    assert first.thinking and not second.thinking
    assert (second.top_p, second.max_tokens) == (0.75, 9)
    assert second.seed >= 0 and second.seed != third.seed
