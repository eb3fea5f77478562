# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Text that comes token by token: whole characters, thinking apart, stop strings."""
import random

import pytest

from cosmos3_ros.tasks.answer_text import AnswerText, Detokenizer

TEXT = 'Ünïcode 日本語 🍌👩\u200d🚀, naïve; ﷽ e\u0301!'


def ids(processor, text):
    """One token a byte, so that every character comes in parts."""
    tokenizer = processor.tokenizer
    return [token for byte in text.encode('utf-8')
            for token in [tokenizer.convert_tokens_to_ids(_letter(byte))]]


def _letter(byte):
    """How byte-level BPE writes a byte (the table of GPT-2)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return chr(byte if byte in printable else 256 + others.index(byte))


def pieces(processor, tokens, thinking=False, stop=()):
    """Texts of the deltas that are answer, then the whole."""
    text, said = AnswerText(processor, thinking, stop), []
    for token in tokens:
        said.append(text.push(token))
        if text.stopped:
            break
    said.append(text.finish())
    return [delta for delta in said if delta], text


def test_bytes_of_a_character_are_held_until_it_is_whole(tiny):
    tokens = ids(tiny.processor, TEXT)
    assert len(tokens) == len(TEXT.encode())
    deltas, text = pieces(tiny.processor, tokens)
    assert [delta.text for delta in deltas] == list(TEXT)
    assert text.text == TEXT


def test_each_delta_counts_the_tokens_until_then(tiny):
    deltas, _ = pieces(tiny.processor, ids(tiny.processor, 'a🍌b'))
    assert [(delta.text, delta.tokens) for delta in deltas] == [('a', 1), ('🍌', 5), ('b', 6)]


@pytest.mark.parametrize('seed', range(5))
def test_any_tokens_give_the_text_of_the_whole(tiny, seed):
    tokens = random.Random(seed).choices([i for i in range(512) if i not in (12, 13)], k=200)
    detokenizer = Detokenizer(tiny.processor)
    said = [detokenizer.push(token) for token in tokens]
    whole = tiny.processor.decode(tokens)
    assert whole.startswith(''.join(said))
    assert ''.join(said) + detokenizer.flush() == whole
    assert '\ufffd' in whole        # invalid bytes among them


def test_character_never_completed_comes_at_the_end(tiny):
    deltas, text = pieces(tiny.processor, ids(tiny.processor, 'a🍌')[:-1])
    assert [delta.text for delta in deltas] == ['a', '\ufffd']
    assert text.text == 'a\ufffd'


def test_thinking_is_split_off(tiny):
    write = tiny.processor.tokenizer.encode
    tokens = [*write('a cup 🍌'), 13, *write(' It is a cup.')]
    deltas, text = pieces(tiny.processor, tokens, thinking=True)
    assert (text.thinking, text.text) == ('a cup 🍌', ' It is a cup.')
    assert ''.join(d.text for d in deltas if d.thinking) == text.thinking
    assert ''.join(d.text for d in deltas if not d.thinking) == text.text


def test_model_may_open_the_thinking_itself(tiny):
    write = tiny.processor.tokenizer.encode
    _, text = pieces(tiny.processor, [12, *write('hm'), 13, *write('Yes.')])
    assert (text.thinking, text.text) == ('hm', 'Yes.')


@pytest.mark.parametrize(('text', 'stop', 'wanted', 'stopped'), [
    ('one two three', ('two',), 'one ', 'two'),
    ('one two three', ('three', 'ne t'), 'o', 'ne t'),
    ('aabaabaac', ('aabaac',), 'aab', 'aabaac'),
    ('no end', ('ending', 'x'), 'no end', ''),
    ('日本語', ('本',), '日', '本'),
])
def test_stop_string_is_found_across_tokens_and_never_said(tiny, text, stop, wanted, stopped):
    deltas, answer = pieces(tiny.processor, ids(tiny.processor, text), stop=stop)
    assert ''.join(delta.text for delta in deltas) == answer.text == wanted
    assert answer.stopped == stopped


def test_text_is_held_back_only_while_a_stop_string_may_begin(tiny):
    deltas, _ = pieces(tiny.processor, ids(tiny.processor, 'a##b'), stop=('###',))
    assert [delta.text for delta in deltas] == ['a', '##b']


def test_no_more_of_a_stop_string_is_looked_at_than_there_is_text(tiny):
    class Watched(str):
        def __getitem__(self, part):
            sizes.append(len(super().__getitem__(part)))
            return super().__getitem__(part)

    sizes = []
    _, text = pieces(tiny.processor, ids(tiny.processor, 'abc'), stop=[Watched('x' * 500)])
    assert text.text == 'abc' and max(sizes) <= 1       # one letter a token, nothing is held


def test_stop_string_in_the_thinking_does_not_end(tiny):
    tokens = [*ids(tiny.processor, 'a.b'), 13, *ids(tiny.processor, 'c.d')]
    _, text = pieces(tiny.processor, tokens, thinking=True, stop=('.',))
    assert (text.thinking, text.text) == ('a.b', 'c')
