# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What one request may ask for."""
import pytest

from cosmos3_ros.tasks.limits import check_ranges, check_window, prompt_ids


class WordTokenizer:
    """A token a word."""

    def __init__(self):
        self.asked = 0

    def encode(self, prompt):
        self.asked += 1
        return prompt.split()


@pytest.mark.parametrize('name, inside, outside', [
    ('fps', (1, 60), (0.99, 60.1)), ('steps', (1, 1000), (0, 1001)),
    ('guidance', (0, 100), (-1e-3, 100.1)), ('shift', (0.1, 100), (0, 100.1))])
def test_numbers_have_a_range(name, inside, outside):
    for value in inside:
        check_ranges(**{name: value})
    for value in (*outside, float('nan'), float('inf'), -float('inf')):
        with pytest.raises(ValueError, match=f'{name} is {value}, wanted '):
            check_ranges(**{name: value})


def test_largest_window_is_64_latents_of_832x480_or_as_many_pixels():
    check_window(64, 480, 832)
    check_window(4 * 64, 240, 416)
    with pytest.raises(ValueError, match='window is 65 latents of 832x480, wanted at most 64'):
        check_window(65, 480, 832)
    with pytest.raises(ValueError, match='window is 1 latents of 8000x8000, wanted at most 0'):
        check_window(1, 8000, 8000)


def test_longest_prompt_has_4096_tokens():
    assert len(prompt_ids(WordTokenizer(), 'a ' * 4096)) == 4096
    with pytest.raises(ValueError, match='^prompt has 4097 tokens, wanted at most 4096 tokens'):
        prompt_ids(WordTokenizer(), 'a ' * 4097)


def test_endless_text_is_refused_unread():
    tokenizer = WordTokenizer()
    with pytest.raises(ValueError, match='^negative_prompt has 400000 characters, wanted '):
        prompt_ids(tokenizer, 'word' * 100_000, 'negative_prompt')
    assert tokenizer.asked == 0
