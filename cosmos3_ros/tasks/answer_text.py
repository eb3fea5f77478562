# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens to text while they come: whole characters, thinking apart, up to a stop string."""
from __future__ import annotations

from collections.abc import Sequence

from ..model.processor import Processor
from .question import Delta

_INCOMPLETE = '\N{REPLACEMENT CHARACTER}'   # how a decoder writes the start of a character


class AnswerText:
    """The text of one answer.

    `thinking` at the start: the prompt has opened the thinking. `stop`: strings that end the
    answer; `stopped` is the one that did.
    """

    def __init__(self, processor: Processor, thinking: bool, stop: Sequence[str] = ()):
        self._processor = processor
        self._stop = tuple(stop)
        self._thinks = thinking
        self._detokenizer = Detokenizer(processor)
        self._held = ''                 # may be the start of a stop string
        self._tokens = 0
        self.text = self.thinking = self.stopped = ''

    def push(self, token: int) -> Delta | None:
        """Add a token; what can be said now."""
        self._tokens += 1
        thinks = {self._processor.think: True, self._processor.end_think: False}.get(token)
        if thinks is None:
            return self._say(self._detokenizer.push(token))
        delta = self._say(self._detokenizer.flush(), last=True)
        self._thinks, self._detokenizer = thinks, Detokenizer(self._processor)
        return delta

    def finish(self) -> Delta | None:
        """What was held back, when no more tokens come."""
        return None if self.stopped else self._say(self._detokenizer.flush(), last=True)

    def _say(self, text: str, last: bool = False) -> Delta | None:
        if self._thinks:
            self.thinking += text
        else:
            text = self._until_stop(self._held + text, last)
            self.text += text
        return Delta(text, self._thinks, self._tokens) if text else None

    def _until_stop(self, text: str, last: bool) -> str:
        found = [(place, stop) for stop in self._stop if (place := text.find(stop)) >= 0]
        if found:
            place, self.stopped = min(found)
            self._held = ''
            return text[:place]
        self._held = '' if last else _start_of_any(self._stop, text)
        return text[:len(text) - len(self._held)]


class Detokenizer:
    """Text of a growing list of tokens, without a character that is not whole yet.

    Decodes a few tokens at a time, from one boundary before the text that is due: tokenizers
    write some tokens otherwise at the start of a text.
    """

    def __init__(self, processor: Processor):
        self._processor = processor
        self._window: list[int] = []
        self._known = 0         # tokens of the window whose text was given
        self._given = 0         # characters of the window's text that were given

    def push(self, token: int) -> str:
        self._window.append(token)
        text = self._processor.decode(self._window)
        whole = text.removesuffix(_INCOMPLETE)
        new = whole[self._given:]
        self._given = max(self._given, len(whole))
        if whole == text:
            self._advance()
        return new

    def flush(self) -> str:
        """The rest, with a replacement character for one that was never completed."""
        text = self._processor.decode(self._window)[self._given:]
        self._given += len(text)
        return text

    def _advance(self) -> None:
        """Start the window at the last boundary."""
        self._window = self._window[self._known:]
        self._known = len(self._window)
        self._given = len(self._processor.decode(self._window))


def _start_of_any(stops: Sequence[str], text: str) -> str:
    """The longest end of `text` with which a stop string may begin."""
    starts = (stop[:size] for stop in stops
              for size in range(min(len(stop) - 1, len(text)), 0, -1))
    return max((start for start in starts if text.endswith(start)), key=len, default='')
