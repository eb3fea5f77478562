# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Questions about moments of a bag, and how near the answers come to those expected."""
from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
import re
import time

import cv2
import numpy as np
import yaml

from cosmos3_ros.droid.observation import CAMERAS
from cosmos3_ros.engine.device import pick_device, pick_dtype
from cosmos3_ros.engine.engine import Engine
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.sensing.images import to_rgb
from cosmos3_ros.tasks.question import Question
from cosmos3_ros.tasks.reason import Reasoner

from .bag import Bag, BagError
from .pictures import jpeg
from .setup import Setup

FORMAT = 'cosmos3-replay-questions/2'


@dataclass(frozen=True)
class Expected:
    """A question `at` s of a bag; `expected`: all answers that are right."""

    text: str
    expected: tuple[str, ...]
    at: float = 0.0
    cameras: tuple[str, ...] = ('wrist',)
    max_tokens: int = 64


def read(path: Path) -> list[Expected]:
    """Questions of a YAML or JSON list of maps with the fields of Expected. Raises ValueError."""
    try:
        entries = yaml.safe_load(path.read_text(encoding='utf-8'))
        if not entries:
            raise ValueError('no question')
        return [_expected(entry) for entry in entries]
    except (OSError, yaml.YAMLError, TypeError, KeyError, ValueError) as error:
        raise ValueError(f'{path}: {error}: wanted a list of maps with text, expected and, if '
                         'need be, at (s), cameras, max_tokens') from error


def run(bag: str, checkpoint: str, setup: Setup, questions: list[Expected], device: str,
        precision: str) -> dict:
    """Ask every question about the pictures that were newest at its time."""
    place, started = pick_device(device), time.monotonic()
    with Engine(place) as engine, Bag(bag) as opened:
        model = ModelLibrary(engine).acquire(checkpoint, pick_dtype(precision, place)).result()
        reasoner = Reasoner(model, lambda job: engine.submit(job, task='reasoner', name='reason'))
        rows, seconds, shown = [], [], []
        for one, pictures in zip(questions, _pictures(opened, setup, questions)):
            shown.append(_side_by_side(pictures))
            asked = time.monotonic()
            answer = reasoner.submit(Question(one.text, tuple(pictures), thinking=False,
                                              max_tokens=one.max_tokens)).result()
            seconds.append(time.monotonic() - asked)
            rows.append(asdict(one) | {
                'answer': answer.text, 'exact': exact(answer.text, one.expected),
                'fuzzy': fuzzy(answer.text, one.expected)})
    count = len(rows)
    return {'format': FORMAT, 'bag': opened.name,
            'settings': {'checkpoint': checkpoint, 'device': place.type, 'precision': precision},
            'scores': {'exact': sum(row['exact'] for row in rows) / count,
                       'fuzzy': sum(row['fuzzy'] for row in rows) / count},
            'questions': rows, 'drawing': {'pictures': shown},
            'timing': {'wall_s': time.monotonic() - started, 'answer_s': seconds}}


def verdict(result: dict) -> str:
    """One line: how many answers are right."""
    return (f'{result["bag"]}: {result["scores"]["exact"]:.0%} of {len(result["questions"])} '
            f'answers are exact, likeness {result["scores"]["fuzzy"]:.2f}')


def exact(answer: str, expected: tuple[str, ...]) -> bool:
    """Whether the answer is one of those expected, but for case, punctuation and spaces."""
    return _plain(answer) in map(_plain, expected)


def fuzzy(answer: str, expected: tuple[str, ...]) -> float:
    """Likeness to the nearest expected answer, 0 to 1: twice the common characters over all."""
    return max(SequenceMatcher(None, _plain(answer), _plain(one), False).ratio()
               for one in expected)


def _plain(text: str) -> str:
    return ' '.join(re.sub(r'[^\w\s]', ' ', text.casefold()).split())


def _expected(entry: dict) -> Expected:
    entry, expected = dict(entry), entry['expected']
    entry['expected'] = (expected,) if isinstance(expected, str) else tuple(expected)
    entry['cameras'] = tuple(entry.get('cameras', ('wrist',)))
    if not entry['expected'] or not set(entry['cameras']) <= set(CAMERAS):
        raise ValueError(f'question {entry["text"]!r}: wanted an expected answer, and cameras of '
                         f'{", ".join(CAMERAS)}')
    return Expected(**entry)


def _side_by_side(pictures: list[np.ndarray]) -> str:
    """A JPEG for the report, '' for a question without a picture."""
    if not pictures:
        return ''
    return jpeg(np.concatenate([cv2.resize(one, (320, 180), interpolation=cv2.INTER_AREA)
                                for one in pictures], axis=1))


def _pictures(bag: Bag, setup: Setup, questions: list[Expected]) -> list[list]:
    """RGB pictures of each question. Raises BagError where a camera has none by then."""
    topics = {name: stream.topic
              for name, stream in setup.streams(bag, time.monotonic).cameras.items()}
    found: list[dict] = [{} for _ in questions]
    for topic, at, message in bag.messages(topics.values()):
        for one, newest in zip(questions, found):
            if at <= bag.start + round(one.at * 1e9):
                newest[topic] = message
    for one, newest in zip(questions, found):
        for name in one.cameras:
            if topics[name] not in newest:
                raise BagError(f'question {one.text!r}: {name} has no picture by {one.at} s of '
                               f'bag {bag.path}: ask about a later time')
    return [[to_rgb(newest[topics[name]]) for name in one.cameras]
            for one, newest in zip(questions, found)]
