# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Prompts as the generation tower reads them."""
import pytest
from transformers import AutoTokenizer

from cosmos3_ros.model.config import CheckpointError
from cosmos3_ros.model.tokenizer import PromptTokenizer

CHAT = ('\n<|im_start|>system\n<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n'
        '<|im_start|>assistant\n<think>\n<|im_end|><|vision_start|>')


@pytest.mark.parametrize('prompt', [
    '', 'Pick up the banana and place it in the bowl', '{"fps": 15.0, "aspect_ratio": "4,3"}',
    'Ünïcode, 日本語, 🍌', '  spaces and\nlines  '])
def test_prompt_is_one_user_turn_then_end_of_text_and_start_of_vision(tiny, tiny_folder, prompt):
    ids = tiny.tokenizer.encode(prompt)
    assert ids[-2:] == [11, 20]
    text = AutoTokenizer.from_pretrained(tiny_folder / 'text_tokenizer').decode(
        ids, clean_up_tokenization_spaces=False)
    assert text == CHAT.format(prompt)


def test_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match='tokenizer'):
        PromptTokenizer.from_folder(tmp_path)
