# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""One question from its arrival to its answer."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
import secrets
import threading
import time

from cosmos3_ros import msg
from cosmos3_ros.ros.reasoner import answers
from cosmos3_ros.ros.reasoner.questions import Seen
from cosmos3_ros.tasks.open_question import Handle
from cosmos3_ros.tasks.question import Delta, Question

Prepare = Callable[[msg.Question], tuple[Question, Sequence[Seen]]]
CANCELLED, DEACTIVATED = 'cancelled', 'the node was deactivated'


class Asking:
    """Answers one question in the thread that calls `run`; any thread may cancel it.

    `seen`: its pictures in the order of the prompt; `kind`: how it ended, which is answered,
    cancelled, refused (before any computation) or failed.
    """

    def __init__(self, question: msg.Question):
        self.reason = ''                # why it was cancelled
        self.kind = ''
        self.seen: Sequence[Seen] = ()
        self._question = question
        self._arrived = time.monotonic()
        self._lock = threading.Lock()
        self._handle: Handle | None = None

    def cancel(self, reason: str) -> None:
        """Stop within one token; `run` returns soon after."""
        with self._lock:
            self.reason = self.reason or reason
            handle = self._handle
        if handle is not None:
            handle.cancel()

    def run(self, prepare: Prepare, submit: Callable[[Question], Handle],
            report: Callable[[Delta], None]) -> msg.Answer:
        """The answer, or the error in place of it: nothing is raised.

        `report` is called with every delta.
        """
        answer = msg.Answer(id=secrets.token_hex(4), finish_reason=msg.Answer.ERROR)
        try:
            handle, waited = self._submit(prepare, submit, answer)
            for delta in handle:
                answers.add(answer, delta)
                report(delta)
            answers.fill(answer, handle.result(), waited)
            answer.regions = answers.regions(answer.text, self.seen)
            self.kind = 'answered'
        except CancelledError:
            self.reason = self.reason or 'the engine was closed'
            answer.finish_reason = msg.Answer.CANCELLED
        except Exception as error:      # out of memory, say: this question fails, no other
            self._note_error(answer, error)
        if answer.finish_reason == msg.Answer.CANCELLED:
            self.kind, answer.error = 'cancelled', self.reason
        return answer

    def _submit(self, prepare: Prepare, submit: Callable[[Question], Handle],
                answer: msg.Answer) -> tuple[Handle, float]:
        question, self.seen = prepare(self._question)
        answers.note_pictures(answer, self.seen)
        waited = time.monotonic() - self._arrived
        handle = submit(question)
        with self._lock:
            self._handle = handle
            if self.reason:
                handle.cancel()
        return handle, waited

    def _note_error(self, answer: msg.Answer, error: Exception) -> None:
        refused = isinstance(error, ValueError) and self._handle is None
        self.kind = 'refused' if refused else 'failed'
        answer.finish_reason = msg.Answer.ERROR
        answer.error = str(error) if refused else f'{type(error).__name__}: {error}'
        if not refused and self._handle is not None:
            self._handle.cancel()       # if it was the reader of the deltas that failed
