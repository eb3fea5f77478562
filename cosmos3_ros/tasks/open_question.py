# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""One question on its way: what its asker holds, and what the reasoner knows of it."""
from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
import math
from queue import SimpleQueue
import threading
import time

import numpy as np
from torch import Tensor

from ..model.processor import Processor, Prompt, Span
from ..model.sampling import Choice
from .answer_text import AnswerText
from .question import Answer, Delta, FinishReason, Question


class Handle:
    """An asked question: iterate over it for the deltas, which end when the answer does.

    `future`: of the whole Answer, or of the error that ended it. Its callbacks run on the
    worker's thread: they hand over and return.
    """

    def __init__(self) -> None:
        self.future: Future[Answer] = Future()
        self.future.set_running_or_notify_cancel()      # ends through `cancel` below alone
        self._deltas: SimpleQueue[Delta | None] = SimpleQueue()
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Stop within one token: the answer then is what was written, CANCELLED."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def result(self, timeout: float | None = None) -> Answer:
        """Wait for the whole answer; raises what ended it, or TimeoutError."""
        return self.future.result(timeout)

    def __iter__(self) -> Iterator[Delta]:
        while (delta := self._deltas.get()) is not None:
            yield delta
        self._deltas.put(None)          # for whoever iterates again

    def tell(self, delta: Delta | None) -> None:
        """Hand a delta over, if there is one."""
        if delta is not None:
            self._deltas.put(delta)

    def end(self, outcome: Answer | BaseException) -> None:
        """End the deltas and set the answer or the error."""
        self._deltas.put(None)
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class OpenQuestion:
    """A question from the moment it was asked until it ends; the worker's once it was started.

    `read`: tokens of the prompt in its slot; `steps`: decode steps that it took part in; `alone`:
    its prompt is not to be read with others.
    """

    def __init__(self, question: Question, prompt: Prompt, processor: Processor, asked: float):
        self.question, self.prompt, self.handle = question, prompt, Handle()
        self.choice = Choice(question.temperature, question.top_p, question.top_k, question.seed)
        self.slot = self.cached = self.read = self.steps = 0
        self.alone = False
        self.pictures: dict[int, Tensor] = {}
        self.tokens: list[int] = []
        self.ended = False
        self._processor = processor
        self._text = AnswerText(processor, prompt.thinking, question.stop)
        self._asked, self._first, self._last = asked, math.nan, math.nan

    @property
    def contents(self) -> np.ndarray:
        """Keys of the tokens in its slot; the last token written is not there yet."""
        return np.concatenate([self.prompt.keys[:self.read], self.tokens[:-1]]).astype(np.int64)

    def spans(self, start: int, end: int) -> list[Span]:
        """Pictures with tokens in a part of the prompt."""
        return [span for span in self.prompt.spans if span.start < end and span.end > start]

    def write(self, token: int) -> FinishReason | None:
        """Take the next token of the answer; why it ends, if it does."""
        self._last = time.monotonic()
        if not self.tokens:
            self._first = self._last
        self.tokens.append(token)
        if token in self._processor.eos:
            return FinishReason.STOP
        self.handle.tell(self._text.push(token))
        if self._text.stopped:
            return FinishReason.STOP
        return FinishReason.LENGTH if len(self.tokens) >= self.question.max_tokens else None

    def finish(self, reason: FinishReason) -> None:
        """Hand over the rest of the text and the answer."""
        self.handle.tell(self._text.finish())
        self.ended = True
        count, took = len(self.tokens), self._last - self._first
        self.handle.end(Answer(
            text=self._text.text, thinking=self._text.thinking,
            finish_reason=FinishReason.STOP if self._text.stopped else reason,
            stop=self._stop(), prompt_tokens=len(self.prompt.ids), cached_tokens=self.cached,
            token_ids=tuple(self.tokens), time_to_first_token=self._first - self._asked,
            tokens_per_second=(count - 1) / took if took > 0 else math.nan))

    def fail(self, error: BaseException) -> None:
        self.ended = True
        self.handle.end(error)

    def _stop(self) -> str:
        if self._text.stopped or not self.tokens or self.tokens[-1] not in self._processor.eos:
            return self._text.stopped
        return self._processor.tokenizer.convert_ids_to_tokens(self.tokens[-1])
