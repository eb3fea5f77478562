# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens on their way: taken in order, and waited for only when they must be."""
import pytest
import torch

from cosmos3_ros.model.decoder import Decoder
from cosmos3_ros.model.upload import Download
from cosmos3_ros.tasks import unread
from cosmos3_ros.tasks.question import Question
from cosmos3_ros.tasks.unread import Unread
from reasoner import HandDriven


@pytest.fixture
def downloads(monkeypatch):
    """Copies to the host in the order of their start; each arrives when a test says so."""
    made = []

    class Late(Download):
        def __init__(self, values):
            super().__init__(values)
            self.here = self.waited_for = False
            made.append(self)

        @property
        def arrived(self):
            return self.here

        def get(self):
            self.waited_for |= not self.here
            self.here = True
            return super().get()

    monkeypatch.setattr(unread, 'Download', Late)
    return made


def test_what_has_arrived_is_taken_in_order_with_its_stream(downloads):
    tokens = Unread()
    numbers = [tokens.send(streams, rows, torch.tensor(values)) for streams, rows, values in (
        (['a', 'b'], [0, 1], [10, 11]), (['c'], [2], [0, 0, 12]), (['a'], [0], [13]))]
    assert numbers == sorted(set(numbers)) and numbers[0] > 0
    assert list(tokens.take(0)) == []
    downloads[0].here = downloads[2].here = True    # the last, but not the one before it
    assert list(tokens.take(0)) == [('a', 10), ('b', 11)]
    assert list(tokens.take(numbers[1])) == [('c', 12), ('a', 13)]
    assert [one.waited_for for one in downloads] == [False, True, False]
    assert list(tokens.take(numbers[2])) == []


def test_first_token_is_told_while_other_prompts_are_read(tiny, downloads):
    driven = HandDriven(tiny, slots=2, chunk=8)
    quick = driven.submit(Question('Hi', thinking=False, max_tokens=1))
    slow = driven.submit(Question('Close the drawer. ' * 40, max_tokens=1))
    while not downloads:
        driven.advance()
    assert not quick.future.done()
    downloads[0].here = True
    driven.advance()
    assert quick.result(0).completion_tokens == 1
    assert len(downloads) == 1 and not slow.future.done()
    driven.finish(slow)


def test_host_is_a_step_ahead(tiny, downloads, monkeypatch):
    """After each unit, tokens up to the last step but one were waited for, and no later ones."""
    steps = []
    step = Decoder.step

    def watch(decoder, *values):
        steps.append(len(downloads))
        return step(decoder, *values)

    monkeypatch.setattr(Decoder, 'step', watch)
    driven = HandDriven(tiny, slots=2, chunk=8)
    handles = [driven.submit(Question(text, max_tokens=count))
               for text, count in (('Hi', 30), ('Close the drawer. ' * 40, 9))]
    joined_later = False
    while driven.advance() and not handles[0].future.done():
        waited = [index for index, one in enumerate(downloads) if one.waited_for]
        assert waited == list(range(steps[-2] + 1 if len(steps) > 1 else 0))
        joined_later |= len(steps) > 1 and len(downloads) > steps[-1] + 1
    assert joined_later and len(steps) >= 29
    assert [answer.completion_tokens for answer in driven.finish(*handles)] == [30, 9]
