# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Questions as transformers' processor and model read them."""
from concurrent.futures import ThreadPoolExecutor
import dataclasses
import threading
import time

import pytest
import torch

from cosmos3_ros.model import processor
from cosmos3_ros.model.checkpoint import load, open_checkpoint
from cosmos3_ros.model.config import CheckpointError
from cosmos3_ros.model.pictures import PatchCutter
from cosmos3_ros.model.processor import AT_ONCE, Processor
from cosmos3_ros.tasks.question import Question
from reasoner import QUESTIONS, patches, picture, reference_inputs, video


def encode(model, question):
    return model.processor.encode(question.text, question.pictures, question.videos,
                                  question.system, question.thinking)


QUESTIONS = QUESTIONS | {
    'sampled video': Question('What happens?', videos=(video(20, 30, 10.0),)),
    'pictures and videos': Question('Same?', (picture(1), picture(2, 200, 300)),
                                    (video(30, 2), video(40, 6, 1.0)), system='Be brief. 日本語'),
}


@pytest.mark.parametrize('name', QUESTIONS)
def test_tokens_and_patches_are_those_of_transformers(tiny, reference_processor, name):
    prompt = encode(tiny, QUESTIONS[name])
    wanted = reference_inputs(reference_processor, QUESTIONS[name])
    assert prompt.ids.tolist() == wanted['input_ids'][0].tolist()
    values = [wanted[key] for key in ('pixel_values', 'pixel_values_videos') if key in wanted]
    mine = [patches(tiny, span) for span in prompt.spans]
    assert torch.equal(torch.cat(mine or [torch.empty(0)]), torch.cat(values or [torch.empty(0)]))


@pytest.mark.parametrize('name', QUESTIONS)
def test_positions_are_those_of_transformers(tiny, reference_reasoner, reference_processor, name):
    prompt = encode(tiny, QUESTIONS[name])
    wanted = reference_inputs(reference_processor, QUESTIONS[name])
    positions, delta = reference_reasoner.model.get_rope_index(
        wanted['input_ids'], wanted['mm_token_type_ids'], wanted.get('image_grid_thw'),
        wanted.get('video_grid_thw'))
    assert torch.equal(prompt.positions, positions[:, 0])
    assert prompt.next_position == len(prompt.ids) + delta.item()


def test_spans_are_the_picture_tokens(tiny):
    prompt = encode(tiny, QUESTIONS['video'])
    marked = [i for span in prompt.spans for i in range(span.start, span.end)]
    assert marked == [i for i, token in enumerate(prompt.ids) if token == 18]
    assert len(prompt.spans) == 5


def test_keys_tell_pictures_apart_and_know_them_again(tiny):
    ask = tiny.processor.encode
    one, other = picture(1), picture(2)
    first, again, swapped = (ask('What?', pictures).keys
                             for pictures in ((one, other), (one.copy(), other), (other, one)))
    assert (first == again).all() and not (first == swapped).all()
    text = first >= 0
    assert (first[text] == swapped[text]).all() and not (first == swapped)[~text].any()


def test_picture_travels_as_its_bytes_and_as_they_were_when_asked(tiny):
    one = picture(1, 256, 320)
    span, = tiny.processor.encode('What?', [one]).spans
    seen = torch.from_numpy(one.copy())
    one[:] = 0
    assert span.pixels.dtype == torch.uint8 and torch.equal(span.pixels, seen)


def test_processor_that_does_something_else_is_left_to_do_it(tiny_folder, reference_processor):
    unusual = Processor.from_folder(tiny_folder)
    unusual._processor.image_processor.do_normalize = False
    unusual = Processor(unusual._processor, [])
    reference_processor.image_processor.do_normalize = False
    try:
        wanted = reference_inputs(reference_processor, QUESTIONS['three pictures'])
    finally:
        reference_processor.image_processor.do_normalize = True
    question = QUESTIONS['three pictures']
    prompt = unusual.encode(question.text, question.pictures, thinking=question.thinking)
    assert prompt.ids.tolist() == wanted['input_ids'][0].tolist()
    assert torch.equal(torch.cat([span.pixels for span in prompt.spans]), wanted['pixel_values'])
    assert wanted['pixel_values'].min() == 0


def test_questions_are_read_by_many_threads_at_once(tiny):
    questions = [*QUESTIONS.values()] * 4
    with ThreadPoolExecutor(8) as threads:
        prompts = list(threads.map(lambda question: encode(tiny, question), questions))
    for question, prompt in zip(questions, prompts, strict=True):
        assert (prompt.keys == encode(tiny, question).keys).all()


def test_few_questions_are_read_at_a_time(tiny, monkeypatch):
    inside, most = [], []
    resized = PatchCutter.resized

    def slow(cutter, pixels):
        inside.append(None)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()
        return resized(cutter, pixels)
    monkeypatch.setattr(PatchCutter, 'resized', slow)
    with ThreadPoolExecutor(8) as threads:
        prompts = list(threads.map(lambda i: tiny.processor.encode('What?', [picture(i)]),
                                   range(16)))
    assert max(most) == AT_ONCE and len(prompts) == len(most) == 16


def test_picture_does_not_wait_for_a_video(tiny, monkeypatch):
    videos, go_on = QUESTIONS['video'], threading.Event()
    metadata = processor._metadata

    def slow(one):
        assert go_on.wait(10)
        return metadata(one)
    monkeypatch.setattr(processor, '_metadata', slow)
    with ThreadPoolExecutor(3) as threads:
        slow_ones = [threads.submit(encode, tiny, videos) for _ in range(3)]
        assert tiny.processor.encode('What?', [picture(1)]).spans
        assert not any(one.done() for one in slow_ones)
        go_on.set()
        assert all(len(one.result().spans) == 5 for one in slow_ones)


def test_thinking_is_open_only_where_the_template_opened_it(tiny):
    for thinking in (True, False):
        question = dataclasses.replace(QUESTIONS['text'], thinking=thinking)
        assert encode(tiny, question).thinking is thinking


def test_end_tokens_of_tokenizer_and_generation_config_are_joined(tiny):
    assert tiny.processor.eos == {2, 11}


def test_random_checkpoint_reads_a_question_as_its_folder_does(tiny):
    random = open_checkpoint('random:tiny').processor
    for question in QUESTIONS.values():
        mine = random.encode(question.text, question.pictures, question.videos)
        assert (mine.keys == tiny.processor.encode(question.text, question.pictures,
                                                   question.videos).keys).all()
    assert random.eos == tiny.processor.eos


def test_policy_checkpoint_has_no_processor(tiny_droid_folder):
    assert load(str(tiny_droid_folder)).processor is None


def test_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match='tokenizer.json'):
        Processor.from_folder(tmp_path)
