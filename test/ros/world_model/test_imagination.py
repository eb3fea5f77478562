# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Segments on the engine, frames to a publisher that may be slow or fail."""
from concurrent.futures import CancelledError
import threading
import time

import pytest

from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.ros.world_model.imagination import FRAMES_HELD, Imagination
from cosmos3_ros.tasks.rollout import Frame
from engine_jobs import SOON, still_works


@pytest.fixture
def engine():
    with Engine('cpu') as result:
        yield result


def frame(index):
    return Frame(None, index, 0, 0)


def burst(first, count):
    """A segment that makes frames, one a step."""
    def segment(emit):
        for index in range(first, first + count):
            emit(frame(index))
            yield
    return segment


def test_slow_publisher_loses_the_oldest_frames_and_the_engine_does_not_wait(engine):
    made, published = threading.Event(), []

    def segment(emit):
        yield from burst(0, 60)(emit)
        made.set()

    def publish(one):
        assert made.wait(SOON)      # held in its first frame until the engine has made all
        published.append(one.index)

    imagination = Imagination(engine)
    imagination.run([segment], publish, lambda _: None)
    kept = list(range(60 - FRAMES_HELD, 60))
    # the first may have been taken, or several, before the rest were dropped: never more
    assert published[-FRAMES_HELD:] == kept and len(published) <= FRAMES_HELD + 1
    assert published == sorted(published)
    assert imagination.progress.frames == len(published)


def test_segments_follow_one_another_and_progress_is_reported_after_each_latent(engine):
    published, reports = [], []
    imagination = Imagination(engine)
    imagination.run([burst(0, 5), burst(5, 8)], lambda one: published.append(one.index),
                    lambda progress: reports.append(progress.frames))
    assert published == list(range(13)) and reports == [1, 5, 9, 13]
    assert imagination.begun and imagination.progress.first_frame > 0


def test_cancel_publishes_what_the_step_in_progress_makes(engine):
    published, in_step, cancelled = [], threading.Event(), threading.Event()

    def segment(emit):
        yield
        in_step.set()
        assert cancelled.wait(SOON)
        emit(frame(0))
        yield
        emit(frame(1))

    imagination = Imagination(engine)

    def cancel():
        assert in_step.wait(SOON)
        imagination.cancel('enough')
        cancelled.set()

    threading.Thread(target=cancel).start()
    with pytest.raises(CancelledError):
        imagination.run([segment], lambda one: published.append(one.index), lambda _: None)
    assert published == [0] and imagination.reason == 'enough'


@pytest.mark.parametrize('late', [False, True])
def test_nothing_begins_after_a_cancel(engine, late):
    begun = []

    def segment(emit):
        begun.append(len(begun))
        yield

    def segments():
        if late:
            yield segment
            imagination.cancel('enough')
        yield segment

    imagination = Imagination(engine)
    if not late:
        imagination.cancel('enough')
    with pytest.raises(CancelledError):
        imagination.run(segments(), lambda _: None, lambda _: None)
    assert len(begun) == late and still_works(engine)


def test_failing_publisher_stops_the_job(engine):
    closed = threading.Event()

    def segment(emit):
        try:
            while True:
                emit(frame(0))
                yield
                time.sleep(0.001)
        finally:
            closed.set()

    def publish(_):
        raise OSError('no buffer')

    with pytest.raises(OSError, match='no buffer'):
        Imagination(engine).run([segment], publish, lambda _: None)
    assert closed.wait(SOON) and still_works(engine)


@pytest.mark.parametrize('steps', [0, 1])
def test_error_tells_whether_the_engine_had_begun(engine, steps):
    def segment(emit):
        for _ in range(steps):
            yield
        raise ValueError('no fit')

    imagination = Imagination(engine)
    with pytest.raises(ValueError, match='no fit'):
        imagination.run([segment], lambda _: None, lambda _: None)
    assert imagination.begun is bool(steps)


def test_closed_engine_ends_a_run(engine):
    in_step = threading.Event()

    def segment(emit):
        while True:
            in_step.set()
            yield

    def close():
        assert in_step.wait(SOON)
        engine.close()

    threading.Thread(target=close).start()
    with pytest.raises(CancelledError):
        Imagination(engine).run([segment], lambda _: None, lambda _: None)
