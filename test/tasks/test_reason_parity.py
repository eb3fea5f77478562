# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Answers token for token: against transformers, in a batch, in chunks, from a cached prefix."""
import dataclasses

import pytest
import torch

from cosmos3_ros.tasks.question import FinishReason, Question
from reasoner import QUESTIONS, HandDriven, picture, reference_inputs, video


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize('name', QUESTIONS)
def test_greedy_tokens_are_those_of_transformers(tiny, reference_reasoner, reference_processor,
                                                 name):
    question = dataclasses.replace(QUESTIONS[name], max_tokens=64)
    inputs = reference_inputs(reference_processor, question)
    wanted = reference_reasoner.generate(**inputs, max_new_tokens=64, do_sample=False)
    wanted = wanted[0, inputs['input_ids'].shape[1]:].tolist()
    answer = HandDriven(tiny).ask(question)
    assert list(answer.token_ids) == wanted
    assert len(wanted) == 64 and len(set(wanted)) > 6       # says something
    assert answer.prompt_tokens == inputs['input_ids'].shape[1]


STREAMS = [
    Question('Where?', max_tokens=40),
    Question('What is on the table? Name every object and its colour.', max_tokens=7),
    Question('Close the drawer.', (picture(1),), thinking=False, max_tokens=25),
    Question('Which one is red?', (picture(2, 64, 64), picture(3, 128, 64)), max_tokens=12),
    Question('What happens?', videos=(video(10, 4),), max_tokens=30),
    Question('Pick up the cube.', max_tokens=33, temperature=1.0, seed=3),
    Question('Pick up the cube.', (picture(1),), max_tokens=20, temperature=0.7, top_p=0.8,
             seed=-4),
    Question('Why?', max_tokens=50, temperature=1.5, top_k=20, seed=5),
]


@pytest.fixture(scope='module')
def alone(tiny):
    """The answers to STREAMS, each with the reasoner to itself."""
    return [HandDriven(tiny).ask(question).token_ids for question in STREAMS]


def test_streams_that_join_and_leave_answer_as_they_do_alone(tiny, alone):
    driven, handles = HandDriven(tiny, chunk=48), []
    for question in STREAMS:
        handles.append(driven.submit(question))
        driven.advance(5)
    answers = driven.finish(*handles)
    assert [answer.token_ids for answer in answers] == alone


@pytest.mark.parametrize('slots', [1, 3])
def test_more_questions_than_slots_are_answered_in_turn(tiny, alone, slots):
    driven, ended = HandDriven(tiny, slots=slots, chunk=48), []
    handles = [driven.submit(question) for question in STREAMS]
    for i, handle in enumerate(handles):
        handle.future.add_done_callback(lambda _, i=i: ended.append(i))
    answers = driven.finish(*handles)
    assert [answer.token_ids for answer in answers] == alone
    assert slots > 1 or ended == sorted(ended)


def test_chunked_prefill_equals_whole(tiny):
    for name in ('text', 'three pictures', 'video'):
        whole, *chunked = (HandDriven(tiny, chunk=chunk).ask(QUESTIONS[name]).token_ids
                           for chunk in (512, 1, 19, 64))
        assert chunked == [whole] * 3


@pytest.mark.parametrize(('before', 'after', 'shared'), [
    (QUESTIONS['picture'], QUESTIONS['picture'], 'all'),
    (QUESTIONS['picture'], dataclasses.replace(QUESTIONS['picture'], text='Where is it?'), 'most'),
    (dataclasses.replace(QUESTIONS['picture'], pictures=(picture(7),)), QUESTIONS['picture'],
     'little'),
    (QUESTIONS['three pictures'], QUESTIONS['text'], 'little')])
def test_prefix_reuse_equals_none(tiny, before, after, shared):
    driven = HandDriven(tiny)
    assert driven.ask(before).cached_tokens == 0
    again, fresh = driven.ask(after), HandDriven(tiny).ask(after)
    assert again.token_ids == fresh.token_ids
    least, most = {'all': (again.prompt_tokens - 1,) * 2, 'most': (64, again.prompt_tokens - 2),
                   'little': (1, 25)}[shared]
    assert least <= again.cached_tokens <= most


def test_prefix_of_a_stream_that_still_writes_is_reused(tiny):
    first, second = QUESTIONS['picture'], dataclasses.replace(QUESTIONS['picture'], text='Where?')
    driven = HandDriven(tiny)
    one = driven.submit(first)
    driven.advance(6)
    other = driven.submit(second)
    answers = driven.finish(one, other)
    assert answers[1].cached_tokens > 64
    assert [a.token_ids for a in answers] == [HandDriven(tiny).ask(q).token_ids
                                              for q in (first, second)]


def test_slots_can_be_filled_to_the_last_token(tiny):
    question = dataclasses.replace(QUESTIONS['text'], max_tokens=60)
    roomy = HandDriven(tiny).ask(question)
    driven = HandDriven(tiny, slots=2, length=roomy.prompt_tokens + 60)
    tight = driven.finish(driven.submit(question), driven.submit(question))
    assert [answer.token_ids for answer in tight] == [roomy.token_ids] * 2
    assert tight[0].finish_reason is FinishReason.LENGTH
