# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Which prompts are read together, and which cached starts are reused."""
import time

import pytest
import torch

from cosmos3_ros.model.decoder import Decoder
from cosmos3_ros.tasks.open_question import OpenQuestion
from cosmos3_ros.tasks.prompt_reader import START_WORTH_KEEPING, PromptReader
from cosmos3_ros.tasks.question import Question


@pytest.fixture
def reader(tiny):
    """A reader that decides as where work is recorded."""
    reader = PromptReader(tiny, Decoder(tiny.transformer, 1, 16), 512)
    reader._device = torch.device('cuda')
    return reader


@pytest.fixture
def stream(tiny):
    """Makes a stream with a prompt of so many tokens."""
    def make(tokens):
        question = Question('?' * (tokens - len(tiny.processor.encode('').ids)))
        prompt = tiny.processor.encode(question.text)
        assert len(prompt.ids) == tokens
        return OpenQuestion(question, prompt, tiny.processor, time.monotonic())
    return make


def test_prompts_of_about_one_length_are_read_together(reader, stream):
    first, longer, near, shorter, third, fourth = (stream(n) for n in (140, 204, 203, 76, 77, 140))
    assert reader.together([first, longer, near, shorter, third, fourth]) == [
        first, near, third, fourth]
    assert reader.together([first, longer, near, shorter, third]) == [first, near]
    assert reader.together([longer, first, shorter]) == [longer]


def test_no_more_are_read_together_than_a_step_may_wait_for(reader, stream):
    streams = [stream(400) for _ in range(5)]
    assert reader.most == 1536 and reader.together(streams) == streams[:2]
    assert reader.tokens(streams[:2]) == 800


def test_prompt_that_failed_or_is_begun_or_is_long_is_read_alone(reader, stream):
    fresh = [stream(100), stream(100)]
    failed, begun, long = stream(100), stream(100), stream(600)
    failed.alone, begun.read = True, 20
    for one in (failed, begun, long):
        assert reader.together([one, *fresh]) == [one]
        assert reader.together([fresh[0], one, fresh[1]]) == fresh


def test_short_start_is_read_again_where_work_is_recorded(reader):
    assert reader.least_start(300) == START_WORTH_KEEPING
    assert reader.least_start(513) == 1         # longer than a chunk: read call by call anyway
    reader._device = torch.device('cpu')
    assert reader.least_start(300) == 1
