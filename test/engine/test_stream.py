# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""From the engine's thread to a reader: in order, bounded, never waiting for the reader."""
import threading

import pytest

from cosmos3_ros.engine.stream import Stream


def drain(stream):
    return list(iter(stream.get, None))


@pytest.mark.parametrize('count, wanted', [(0, []), (1, [0]), (4, [0, 1, 2, 3]),
                                           (5, [1, 2, 3, 4]), (100, [96, 97, 98, 99])])
def test_slow_reader_loses_the_oldest(count, wanted):
    stream = Stream(4)
    for item in range(count):
        stream.put(item)
    stream.end()
    assert drain(stream) == wanted


def test_end_comes_after_the_items_and_stays():
    stream = Stream(2)
    stream.put('frame')
    stream.end()
    assert [stream.get(), stream.get(), stream.get()] == ['frame', None, None]


def test_items_that_are_false_are_items():
    stream = Stream(3)
    for item in (0, '', False):
        stream.put(item)
    assert [stream.get() for _ in range(3)] == [0, '', False]


@pytest.mark.parametrize('wake, wanted', [(lambda s: s.put(7), 7), (Stream.end, None)],
                         ids=['item', 'end'])
def test_reader_in_another_thread_waits(wake, wanted):
    stream, got = Stream(2), []
    reader = threading.Thread(target=lambda: got.append(stream.get()), daemon=True)
    reader.start()
    reader.join(0.1)
    assert reader.is_alive() and not got
    wake(stream)
    reader.join(10)
    assert got == [wanted]


def test_reader_that_keeps_up_gets_everything_in_order():
    stream, taken, got = Stream(1), threading.Semaphore(1), []

    def read():
        while (item := stream.get()) is not None:
            got.append(item)
            taken.release()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for item in range(200):
        assert taken.acquire(timeout=10)
        stream.put(item)
    stream.end()
    reader.join(10)
    assert got == list(range(200))


def test_reader_that_does_not_keep_up_gets_what_is_left_in_order():
    stream, got = Stream(3), []
    reader = threading.Thread(target=lambda: got.extend(drain(stream)), daemon=True)
    reader.start()
    for item in range(2000):
        stream.put(item)
    stream.end()
    reader.join(10)
    assert not reader.is_alive()
    assert got == sorted(set(got)) and got[-3:] == [1997, 1998, 1999]
