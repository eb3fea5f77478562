# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Answers to many questions at once, in one job.

Each advance of the job is some pictures encoded, a part of some prompts read, or one token for
every stream. Between two tokens at most three chunks are read, and prompts take turns, so that a
long prompt holds others up for three chunks at a time. Tokens are turned into text when they have
arrived; the host is at most a step ahead of them, so that the device need not wait for it.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
import threading
import time

from torch import Tensor

from ..model.config import CheckpointError
from ..model.cosmos3 import Cosmos3
from ..model.decoder import Decoder, Entrant
from .open_question import Handle, OpenQuestion
from .prompt_reader import PromptReader
from .question import FinishReason, Question, QuestionError
from .slots import Grant, Slots
from .unread import Unread

Job = Generator[None, None, None]


class Reasoner:
    """Answers questions about text and pictures.

    `start` takes the job and returns its future, as `Engine.submit` does; it is called when a
    question comes and no job runs. The job ends when nothing is open. `slots` questions are
    answered at once, others wait in order; prompt and answer have at most `length` tokens. Prompts
    of more than `chunk` tokens are read in parts of so many. `fp8_decode`: tokens are written with
    weights in that type, where there are kernels for it. Raises CheckpointError for a model
    without a vision encoder.
    """

    def __init__(self, model: Cosmos3, start: Callable[[Job], Future[None]], *, slots: int = 8,
                 length: int = 4096, chunk: int = 1024, fp8_decode: bool = False):
        if model.vision is None or model.processor is None:
            raise CheckpointError(
                f'checkpoint {model.name}: has no vision_encoder/, so it answers no questions; '
                'wanted a base checkpoint such as nvidia/Cosmos3-Edge')
        self._model, self._start = model, start
        self._count, self._length, self._chunk = slots, length, chunk
        self._fp8 = fp8_decode
        self._lock = threading.Lock()
        self._open: list[OpenQuestion] = []         # guarded by the lock, as the two below
        self._waiting: deque[OpenQuestion] = deque()
        self._job: Future[None] | None = None
        self._forget()

    def submit(self, question: Question) -> Handle:
        """Ask; may be called from any thread, which prepares text and pictures.

        Raises QuestionError for a question that makes no sense or is too long, before any
        network is run, and what `start` raises.
        """
        asked = time.monotonic()
        question.check()
        processor = self._model.processor
        try:
            prompt = processor.encode(question.text, question.pictures, question.videos,
                                      question.system, question.thinking)
        except ValueError as error:             # a picture of an extreme shape, for one
            raise QuestionError(f'question: the processor refused it: {error}') from error
        tokens = len(prompt.ids) + question.max_tokens
        if tokens > self._length:
            raise QuestionError(
                f'question: {len(prompt.ids)} tokens to read and up to {question.max_tokens} '
                f'(max_tokens) to write are {tokens}, wanted at most {self._length}: ask with '
                'fewer or smaller pictures, or lower max_tokens')
        stream = OpenQuestion(question, prompt, processor, asked)
        started = None
        with self._lock:
            if self._job is None:
                self._job = started = self._start(self._answer())
            self._open.append(stream)
            self._waiting.append(stream)
        if started is not None:
            started.add_done_callback(self._ended)
        return stream.handle

    def cancel(self) -> None:
        """Cancel every open question."""
        with self._lock:
            for stream in self._open:
                stream.handle.cancel()

    def _answer(self) -> Job:
        """The job."""
        if self._decoder is None:
            self._decoder = Decoder(self._model.transformer, self._count, self._length, self._fp8)
            self._reader = PromptReader(self._model, self._decoder, self._chunk)
        newest = 0
        while not self._over():
            yield from self._read()
            before, newest = newest, self._step() if self._writing else newest
            self._collect(before)
            yield

    def _forget(self) -> None:
        """Start with an empty cache."""
        self._decoder: Decoder | None = None
        self._reader: PromptReader | None = None
        self._slots = Slots(self._count)
        self._reading: deque[OpenQuestion] = deque()
        self._writing: list[OpenQuestion] = []
        self._unread = Unread()

    def _over(self) -> bool:
        """Whether nothing is open; the job ends then, and the next question starts another."""
        with self._lock:
            if not self._open:
                self._job = None
            return not self._open

    def _admit(self) -> None:
        """Give free slots to those that wait longest."""
        self._drop_cancelled()
        with self._lock:
            while self._waiting and (grant := self._grant(self._waiting[0])):
                stream = self._waiting.popleft()
                stream.slot, stream.cached = grant.slot, grant.cached
                stream.read = grant.cached
                for copy in grant.copies:
                    self._decoder.copy(copy.source, copy.target, copy.count)
                self._reading.append(stream)

    def _grant(self, stream: OpenQuestion) -> Grant | None:
        keys = stream.prompt.keys
        return self._slots.take(keys, self._reader.least_start(len(keys)))

    def _drop_cancelled(self) -> None:
        with self._lock:
            dropped = [stream for stream in self._open if stream.handle.cancelled]
        for stream in dropped:
            self._end(stream, FinishReason.CANCELLED)

    def _end(self, stream: OpenQuestion, outcome: FinishReason | Exception) -> None:
        """Free what a stream has, and tell its asker."""
        if stream in self._writing:
            self._writing.remove(stream)
            self._decoder.leave(stream.slot)
        elif stream in self._reading:
            self._reading.remove(stream)
        with self._lock:
            self._open.remove(stream)
            if stream in self._waiting:
                self._waiting.remove(stream)
            else:
                self._slots.hold(stream.slot, stream.contents)
                self._slots.release(stream.slot)
        if isinstance(outcome, Exception):
            stream.fail(outcome)
        else:
            stream.finish(outcome)

    def _read(self) -> Job:
        """Read prompts in turn, as much as may come between two tokens of those that write."""
        read = 0
        self._admit()
        while self._reading:
            streams = self._reader.together(self._reading)
            tokens = self._reader.tokens(streams)
            if read and read + tokens > self._reader.most:
                break
            read += tokens
            for _ in self._read_on(streams):
                yield
                self._collect()
            self._admit()

    def _read_on(self, streams: list[OpenQuestion]) -> Job:
        """Read the next part of some prompts; an error ends the question that has it alone."""
        for stream in streams:
            self._reading.remove(stream)        # to the end: others take their turns first
            self._reading.append(stream)
        try:
            logits = yield from self._reader.read(streams)
            for stream in streams:
                self._slots.hold(stream.slot, stream.prompt.keys[:stream.read])
            if streams[0].read == len(streams[0].prompt.ids):
                self._join(streams, logits)
        except Exception as error:      # noqa: B902 - out of memory, for one
            self._failed(streams, error)
        yield

    def _failed(self, streams: list[OpenQuestion], error: Exception) -> None:
        """End a question whose prompt was not read; of several each has one more try, alone."""
        if len(streams) == 1:
            self._end(streams[0], error)
        else:
            for stream in streams:
                stream.alone, stream.read = True, 0

    def _join(self, streams: list[OpenQuestion], logits: Tensor) -> None:
        """The prompts are read: from here on the streams take part in every step."""
        first = self._decoder.join([Entrant(stream.slot, stream.read, stream.prompt.next_position,
                                            stream.choice) for stream in streams], logits)
        for stream in streams:
            stream.pictures.clear()
            self._reading.remove(stream)
            self._writing.append(stream)
        self._unread.send(streams, range(len(streams)), first)

    def _step(self) -> int:
        """One token for every stream that writes; the number under which they come."""
        streams = list(self._writing)
        for stream in streams:
            stream.steps += 1
        rows = 1 << max(stream.slot for stream in streams).bit_length()
        tokens = self._decoder.step(
            min(rows, self._count), max(stream.read + stream.steps for stream in streams),
            any(stream.choice.random for stream in streams))
        return self._unread.send(streams, [stream.slot for stream in streams], tokens)

    def _collect(self, number: int = 0) -> None:
        """Turn tokens that have arrived into text; wait for those up to `number`."""
        for stream, token in self._unread.take(number):
            if not stream.ended:
                self._write(stream, token)

    def _write(self, stream: OpenQuestion, token: int) -> None:
        try:
            outcome = stream.write(token)
        except Exception as error:      # noqa: B902 - one question's text is no other's
            outcome = error
        if outcome is not None:
            self._end(stream, outcome)

    def _ended(self, job: Future[None]) -> None:
        """Tell the askers, if the job was cancelled or failed; the next question starts anew."""
        error = CancelledError() if job.cancelled() else job.exception()
        with self._lock:
            if error is None or job is not self._job:
                return
            streams, self._open = self._open, []
            self._waiting.clear()
            self._job = None
            self._forget()
        for stream in streams:
            stream.fail(error)
