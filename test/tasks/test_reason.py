# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What the reasoner does with questions: limits, ends, cancels, errors, caches, threads."""
from concurrent.futures import CancelledError
import dataclasses
from itertools import groupby
import math
import threading
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from cosmos3_ros.engine.engine import Engine, EngineClosed
from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.config import CheckpointError
from cosmos3_ros.model.decoder import Decoder
from cosmos3_ros.model.vision import Vision
from cosmos3_ros.tasks.question import FinishReason, Question, QuestionError
from cosmos3_ros.tasks.reason import Reasoner
from reasoner import QUESTIONS, HandDriven, picture, video

SHORT = Question('What is on the table?', max_tokens=5)
LONG = Question('Close the drawer. ' * 12, max_tokens=5)


@pytest.fixture
def passes(monkeypatch):
    """What the network does, in order: (kind, tokens, prompts, rows or pictures)."""
    seen = []

    def watch(kind, name, count):
        original = getattr(kind, name)

        def record(self, *values):
            seen.append((name, count(*values)))
            return original(self, *values)

        monkeypatch.setattr(kind, name, record)

    watch(Decoder, 'prefill', lambda slot, start, x, *_: len(x))
    watch(Decoder, 'read', lambda batch, x: batch.count)
    watch(Decoder, 'step', lambda rows, *_: rows)
    watch(Vision, 'encoding', lambda patches, places: len(patches))
    return seen


def counts(passes, kind):
    return [count for name, count in passes if name == kind]


def test_policy_checkpoint_is_refused(tiny_droid_folder):
    with pytest.raises(CheckpointError, match='vision_encoder'):
        Reasoner(load(str(tiny_droid_folder)), lambda job: None)


@pytest.mark.parametrize(('change', 'message'), [
    ({'text': ' \n'}, 'text: empty'),
    ({'text': 'a <|image_pad|> b'}, 'image_pad'),
    ({'system': '<|video_pad|>'}, 'video_pad'),
    ({'max_tokens': 0}, 'max_tokens: found 0'),
    ({'temperature': -1.0}, 'temperature: found -1.0'),
    ({'temperature': math.nan}, 'temperature: found nan'),
    ({'top_p': 0.0}, 'top_p: found 0.0'),
    ({'top_k': -1}, 'top_k: found -1'),
    ({'seed': 2**63}, 'seed: found'),
    ({'stop': ('a', '')}, 'stop: found'),
    ({'stop': ('a', 'b' * 1000)}, 'stop: found 1001 characters in all, wanted at most 1000'),
    ({'pictures': (picture(1), np.zeros((4, 4), np.uint8))}, r'picture 1: uint8 \(4, 4\)'),
    ({'pictures': (np.zeros((4, 4, 3), np.float32),)}, 'picture 0: float32'),
    ({'pictures': (np.zeros((0, 4, 3), np.uint8),)}, 'picture 0: '),
    ({'pictures': (np.zeros((1, 900, 3), np.uint8),)}, 'processor refused'),
    ({'videos': (dataclasses.replace(video(1), fps=0.0),)}, 'video 0: 0.0 frames'),
])
def test_senseless_question_is_refused_with_the_reason(tiny, change, message):
    driven = HandDriven(tiny)
    with pytest.raises(QuestionError, match=message):
        driven.submit(dataclasses.replace(SHORT, **change))
    assert not driven.jobs


def test_too_many_tokens_are_refused_before_any_compute(tiny, passes):
    driven = HandDriven(tiny, length=128)
    with pytest.raises(QuestionError) as error:
        driven.submit(dataclasses.replace(QUESTIONS['picture'], max_tokens=100))
    tokens = len(tiny.processor.encode('What is on the table?', [picture(1)]).ids)
    for number in (tokens, 100, tokens + 100, 128):
        assert str(number) in str(error.value)
    assert not driven.jobs and not passes


def test_long_prompt_holds_others_up_for_three_chunks(tiny, passes):
    driven = HandDriven(tiny, chunk=8)
    handles = [driven.submit(dataclasses.replace(SHORT, max_tokens=30))]
    driven.advance(10)
    handles += [driven.submit(LONG), driven.submit(LONG)]
    passes.clear()
    driven.finish(*handles)
    kinds = [kind for kind, _ in passes]
    assert len(counts(passes, 'prefill')) > 4 and max(counts(passes, 'prefill')) == 8
    writing = passes[kinds.index('step'):len(kinds) - kinds[::-1].index('prefill')]
    runs = [[tokens for _, tokens in run] for kind, run in groupby(writing, lambda one: one[0])
            if kind == 'prefill']
    assert len(runs) > 2 and max(sum(run) for run in runs) == 3 * 8


def test_whole_prompts_are_read_together_and_no_more_than_a_step_may_wait_for(tiny, passes):
    questions = [dataclasses.replace(SHORT, text=f'What is on table {i % 9}?')
                 for i in range(13)]
    tokens = [len(tiny.processor.encode(question.text).ids) for question in questions]
    assert len(set(tokens)) == 1
    driven = HandDriven(tiny, slots=13, chunk=3 * tokens[0])
    together = driven.finish(*(driven.submit(question) for question in questions))
    kinds = [(kind, count) for kind, count in passes if kind != 'encoding']
    assert [kind for kind, _ in kinds[:6]] == ['read', 'read', 'step', 'read', 'read', 'step']
    assert counts(passes, 'read') == [4, 4, 4, 1]       # twelve would be more than nine
    assert [answer.token_ids for answer in together] == [
        HandDriven(tiny).ask(question).token_ids for question in questions]


def test_questions_that_come_together_share_what_reads_their_pictures(tiny, passes):
    questions = [Question('What is on the table?', (picture(i),), max_tokens=9) for i in range(7)]
    driven = HandDriven(tiny, slots=7)
    together = driven.finish(*(driven.submit(question) for question in questions))
    assert counts(passes, 'encoding') == counts(passes, 'read') == [4, 2, 1]
    assert [answer.token_ids for answer in together] == [
        HandDriven(tiny).ask(question).token_ids for question in questions]


def test_questions_that_come_while_others_are_read_are_read_before_the_next_step(tiny, passes):
    driven = HandDriven(tiny, slots=5)
    handles = [driven.submit(SHORT)]
    while not counts(passes, 'read'):
        driven.advance()
    handles += [driven.submit(SHORT) for _ in range(4)]
    driven.finish(*handles)
    kinds = [kind for kind, _ in passes]
    assert kinds[:kinds.index('step')] == ['read', *['prefill'] * 4]    # with a start in the cache


def test_short_prompt_does_not_wait_for_a_long_one(tiny):
    driven = HandDriven(tiny, chunk=16)
    slow, quick = driven.submit(LONG), driven.submit(SHORT)
    slow, quick = driven.finish(slow, quick)
    assert slow.prompt_tokens > 2 * quick.prompt_tokens
    assert quick.time_to_first_token < slow.time_to_first_token


def test_streams_share_each_step(tiny, passes):
    driven = HandDriven(tiny)
    driven.finish(*(driven.submit(dataclasses.replace(SHORT, max_tokens=20)) for _ in range(4)))
    steps = [rows for kind, rows in passes if kind == 'step']
    assert max(steps) == 4 and len(steps) < 30


def test_picture_is_encoded_once(tiny, passes):
    driven = HandDriven(tiny)
    for question in (QUESTIONS['picture'], QUESTIONS['three pictures'],
                     Question('Again?', (picture(4, 96, 128), picture(1).copy()))):
        driven.ask(question)
    assert counts(passes, 'encoding') == [1] * 4


def test_picture_shown_twice_in_a_question_is_encoded_once(tiny, passes):
    HandDriven(tiny).ask(Question('Same?', (picture(1), picture(1)), max_tokens=2))
    assert counts(passes, 'encoding') == [1]


def test_cancel_frees_the_slot_within_one_token(tiny):
    driven = HandDriven(tiny, slots=1)
    first = driven.submit(dataclasses.replace(SHORT, max_tokens=200))
    second = driven.submit(SHORT)
    driven.advance(12)
    assert not first.future.done() and not second.future.done()
    first.cancel()
    driven.advance(2)
    answer = first.result(0)
    assert answer.finish_reason is FinishReason.CANCELLED
    written = answer.completion_tokens
    assert 1 < written < 15
    assert ''.join(d.text for d in first if d.thinking) == answer.thinking
    assert driven.finish(second)[0].token_ids == HandDriven(tiny).ask(SHORT).token_ids


def test_cancel_before_and_while_reading(tiny):
    driven = HandDriven(tiny, slots=1, chunk=8)
    reading, waiting, last = driven.submit(LONG), driven.submit(SHORT), driven.submit(SHORT)
    driven.advance(3)
    waiting.cancel()
    reading.cancel()
    answers = driven.finish(reading, waiting, last)
    assert [a.finish_reason for a in answers[:2]] == [FinishReason.CANCELLED] * 2
    assert [a.completion_tokens for a in answers] == [0, 0, 5]
    assert math.isnan(answers[0].time_to_first_token)


def test_end_token_ends_the_answer(tiny, monkeypatch):
    question = dataclasses.replace(QUESTIONS['no thinking'], max_tokens=30)
    free = HandDriven(tiny).ask(question)
    assert free.finish_reason is FinishReason.LENGTH and free.stop == ''
    end = free.token_ids[9]
    monkeypatch.setattr(tiny.processor, 'eos', tiny.processor.eos | {end})
    answer = HandDriven(tiny).ask(question)
    assert answer.token_ids == free.token_ids[:free.token_ids.index(end) + 1]
    assert answer.finish_reason is FinishReason.STOP
    assert answer.stop == tiny.processor.tokenizer.convert_ids_to_tokens(end)
    assert free.text.startswith(answer.text)


def test_stop_string_ends_the_answer_and_is_not_in_it(tiny):
    question = dataclasses.replace(QUESTIONS['no thinking'], max_tokens=30)
    free = HandDriven(tiny).ask(question).text
    stop = free[11:15]
    driven = HandDriven(tiny)
    handle = driven.submit(dataclasses.replace(question, stop=('never said', stop)))
    answer, = driven.finish(handle)
    assert answer.text == free[:free.index(stop)] == ''.join(delta.text for delta in handle)
    assert (answer.finish_reason, answer.stop) == (FinishReason.STOP, stop)
    assert answer.completion_tokens < 30


def test_deltas_are_the_text_as_transformers_decodes_it(tiny, reference_processor):
    driven = HandDriven(tiny)
    handle = driven.submit(dataclasses.replace(QUESTIONS['no thinking'], max_tokens=60))
    answer, = driven.finish(handle)
    deltas = list(handle)
    assert ''.join(delta.text for delta in deltas) == answer.text
    assert list(handle) == []           # told once, and it ends again
    assert answer.text == reference_processor.tokenizer.decode(
        answer.token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert [d.tokens for d in deltas] == sorted({d.tokens for d in deltas})
    assert all(delta.text.encode('utf-8') for delta in deltas)


def test_thinking_is_kept_apart(tiny, monkeypatch):
    question = dataclasses.replace(QUESTIONS['text'], max_tokens=30)
    free = HandDriven(tiny).ask(question)
    assert free.thinking and not free.text
    split = free.token_ids[10]
    monkeypatch.setattr(tiny.processor, 'end_think', split)
    driven = HandDriven(tiny)
    handle = driven.submit(question)
    answer, = driven.finish(handle)
    place = free.token_ids.index(split)
    decode = tiny.processor.decode
    assert (answer.thinking, answer.text) == (decode(free.token_ids[:place]),
                                              decode(free.token_ids[place + 1:]))
    for thinking, whole in ((True, answer.thinking), (False, answer.text)):
        handle = HandDriven(tiny)
        asked = handle.submit(question)
        handle.finish(asked)
        assert ''.join(d.text for d in asked if d.thinking is thinking) == whole


def test_counts_and_times_of_an_answer(tiny):
    answer = HandDriven(tiny).ask(SHORT)
    assert answer.completion_tokens == 5 and answer.cached_tokens == 0
    assert answer.time_to_first_token > 0 and answer.tokens_per_second > 0


def test_error_of_one_question_reaches_that_one_only(tiny, monkeypatch):
    fail = Mock(side_effect=torch.OutOfMemoryError('no memory left'))
    driven = HandDriven(tiny)
    before = driven.submit(dataclasses.replace(SHORT, max_tokens=30))
    driven.advance(5)
    with monkeypatch.context() as patch:
        patch.setattr(Vision, 'encoding', fail)
        broken, after = driven.submit(QUESTIONS['picture']), driven.submit(SHORT)
        while driven.advance():
            pass
    with pytest.raises(torch.OutOfMemoryError, match='no memory'):
        broken.result(0)
    assert list(broken) == []
    assert (before.result(0).completion_tokens, after.result(0).completion_tokens) == (30, 5)
    question = QUESTIONS['picture']
    assert driven.ask(question).token_ids == HandDriven(tiny).ask(question).token_ids


@pytest.mark.parametrize('most', [0, 1])
def test_prompts_that_do_not_fit_together_are_read_alone(tiny, passes, monkeypatch, most):
    """Room for `most` prompts at once, and never for the third question."""
    questions = [Question(f'What is on table {i}?', (picture(i),), max_tokens=9)
                 for i in range(4)]
    third = tiny.processor.encode(questions[2].text, questions[2].pictures).ids
    read = Decoder.read

    def narrow(decoder, batch, x):
        if batch.count > most or batch.ids.tolist() == third.tolist():
            raise torch.OutOfMemoryError(f'no memory for {batch.count}')
        return read(decoder, batch, x)

    driven = HandDriven(tiny)
    with monkeypatch.context() as patch:
        patch.setattr(Decoder, 'read', narrow)
        handles = [driven.submit(question) for question in questions]
        while driven.advance():
            pass
    for handle, question in zip(handles, questions, strict=True):
        if most and question is not questions[2]:
            assert handle.result(0).token_ids == HandDriven(tiny).ask(question).token_ids
        else:
            with pytest.raises(torch.OutOfMemoryError, match='for 1'):
                handle.result(0)
    assert driven.ask(questions[2]).token_ids == HandDriven(tiny).ask(questions[2]).token_ids


def test_failed_step_ends_what_is_open_and_the_next_question_is_answered(tiny, monkeypatch):
    driven = HandDriven(tiny)
    handles = [driven.submit(SHORT), driven.submit(SHORT)]
    with monkeypatch.context() as patch:
        patch.setattr(Decoder, 'step', Mock(side_effect=torch.OutOfMemoryError('no memory left')))
        while driven.advance():
            pass
    for handle in handles:
        with pytest.raises(torch.OutOfMemoryError):
            handle.result(0)
    assert driven.ask(SHORT).completion_tokens == 5


def test_job_ends_when_nothing_is_open(tiny):
    driven = HandDriven(tiny)
    driven.ask(SHORT)
    assert not driven.jobs
    assert driven.ask(SHORT).cached_tokens > 0      # the cache outlives the job


def test_questions_from_many_threads_are_answered_by_an_engine(tiny):
    alone = HandDriven(tiny).ask(SHORT).token_ids
    texts = {}
    with Engine() as engine:
        reasoner = Reasoner(tiny, engine.submit, slots=3, length=512)

        def ask(i):
            handle = reasoner.submit(SHORT)
            texts[i] = (''.join(delta.text for delta in handle), handle.result(30))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(texts) == 8
    assert all(answer.token_ids == alone for _, answer in texts.values())
    assert all(text == answer.thinking for text, answer in texts.values())


def test_cancel_all_ends_every_question(tiny):
    with Engine() as engine:
        reasoner = Reasoner(tiny, engine.submit, slots=1, length=2048)
        handles = [reasoner.submit(dataclasses.replace(SHORT, max_tokens=1500)) for _ in range(3)]
        reasoner.cancel()
        assert [h.result(30).finish_reason for h in handles] == [FinishReason.CANCELLED] * 3


def test_closed_engine_ends_open_questions_and_takes_no_more(tiny):
    engine = Engine()
    reasoner = Reasoner(tiny, engine.submit, length=2048)
    handle = reasoner.submit(dataclasses.replace(SHORT, max_tokens=1500))
    assert next(iter(handle)).text
    engine.close()
    with pytest.raises(CancelledError):
        handle.result(30)
    list(handle)            # ends
    with pytest.raises(EngineClosed):
        reasoner.submit(SHORT)
