# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of a ROS 2 bag, sqlite3 or mcap, or a reason why there are none and what to do."""
from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
import sqlite3
from typing import Any

from rosbags.rosbag2 import Reader, ReaderError
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, get_typestore

SAMPLE = Path(__file__).with_name('sample')
_POINTER = b'version https://git-lfs.github.com/spec/'
_STORAGES = ('.mcap', '.db3')


class BagError(ValueError):
    """A bag that cannot be replayed: names the file, what was found, and what to run."""


class Bag:
    """A bag that is open: a folder with its metadata.yaml, or one .mcap or .db3 file.

    The name `sample` is that of the bag that comes with the package. `topics`: name -> type.
    Raises BagError.
    """

    def __init__(self, path: Path | str):
        self.path = SAMPLE if str(path) == 'sample' else Path(path)
        self.name = self.path.name
        _check(self.path)
        self._types = get_typestore(Stores.ROS2_JAZZY)
        try:
            self._reader = Reader(self.path)
            self._reader.open()
        except (ReaderError, OSError, sqlite3.Error, ValueError) as error:
            raise BagError(f'bag {self.path}: cannot be read ({error}): if the recording was cut '
                           f'short, run ros2 bag reindex or mcap recover') from error
        self.topics = {one.topic: one.msgtype for one in self._reader.connections}
        # rosbags: the end is 1 ns after the last message
        self.start, self.end = self._reader.start_time, self._reader.end_time - 1
        if not self._reader.message_count:
            self.close()
            raise BagError(f'bag {self.path}: holds no message; record it again')

    def messages(self, topics: Collection[str]) -> Iterator[tuple[str, int, Any]]:
        """Topic, time of receipt (ns) and message, in the order of receipt. Raises BagError."""
        wanted = [one for one in self._reader.connections if one.topic in topics]
        if not wanted:
            return
        try:
            for connection, time, data in self._reader.messages(wanted):
                yield (connection.topic, time,
                       self._types.deserialize_cdr(data, connection.msgtype))
        except (ReaderError, SerdeError, sqlite3.Error) as error:
            raise BagError(f'bag {self.path}: damaged ({error}): run ros2 bag reindex or '
                           'mcap recover, or copy it again') from error

    def find(self, topic: str, types: Collection[str], what: str) -> str:
        """The topic if the bag has it with one of the types. Raises BagError."""
        if topic not in self.topics:
            raise BagError(f'bag {self.path}: no {topic} ({what}); it holds {self.listing()}: '
                           'name the topics of this bag in a file and give it with --topics')
        if self.topics[topic] not in types:
            raise BagError(f'bag {self.path}: {topic} ({what}) is a {self.topics[topic]}, wanted '
                           f'{" or ".join(types)}: name another topic with --topics')
        return topic

    def listing(self) -> str:
        """All topics with their types."""
        return ', '.join(f'{name} ({kind})' for name, kind in sorted(self.topics.items()))

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def __enter__(self) -> Bag:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(path: Path) -> None:
    """Refuse what is no ROS 2 bag, before it is opened."""
    if not path.exists():
        raise BagError(f'bag {path}: there is no such file or folder; wanted a bag folder, an '
                       '.mcap or .db3 file, or the word sample')
    if path.is_dir() and not (path / 'metadata.yaml').exists():
        files = sorted(file.name for file in path.iterdir() if file.suffix in _STORAGES)
        file = f', or give {path / files[0]} itself' if len(files) == 1 else ''
        raise BagError(f'bag {path}: no metadata.yaml: run ros2 bag reindex {path}{file}')
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        _check_file(file)


def _check_file(file: Path) -> None:
    if file.suffix == '.bag':
        raise BagError(f'bag {file}: a ROS 1 bag; run rosbags-convert --src {file} --dst '
                       f'{file.with_suffix("")}')
    if not file.is_file():
        return
    with file.open('rb') as stream:
        beginning = stream.read(len(_POINTER))
    if beginning == _POINTER:
        raise BagError(f'bag {file}: a git-lfs pointer, not the recording; run git lfs pull')
    if beginning.startswith(b'#ROSBAG V'):
        raise BagError(f'bag {file}: a ROS 1 bag; rename it to .bag and run rosbags-convert')
