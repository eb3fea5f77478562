# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Where tensors come from: safetensors shards on disk, or a seeded random generator.

Both kinds know every tensor's shape and type before any is read (`headers`), and read one tensor
at a time (`read`), so that a checkpoint is checked before device memory is taken.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import json
import math
from pathlib import Path
import zlib

from safetensors import safe_open
import torch
from torch import Tensor

from .config import CheckpointError

DTYPES = {'F32': torch.float32, 'F16': torch.float16, 'BF16': torch.bfloat16}


@dataclass(frozen=True)
class Header:
    """Shape and type of a stored tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Shards:
    """The tensors of one component folder: an index with its shards, or a single file."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._shard: dict[str, Path] = {}
        self.headers: dict[str, Header] = {}
        for path, names in self._files().items():
            found = _read_headers(path)
            absent = sorted((names or set()) - set(found))
            if absent:
                raise CheckpointError(f'{path}: lacks {_some(absent)}, which the index places '
                                      'there; copy the shard again')
            self.headers.update(found)
            self._shard.update(dict.fromkeys(found, path))

    def _files(self) -> dict[Path, set[str] | None]:
        """Each shard with the names that the index places there."""
        index = next(iter(sorted(self.folder.glob('*.safetensors.index.json'))), None)
        if index is None:
            files = sorted(self.folder.glob('*.safetensors'))
            if len(files) != 1:
                raise CheckpointError(
                    f'{self.folder}: {len(files)} .safetensors files and no index, wanted one '
                    'file or a *.safetensors.index.json')
            return {files[0]: None}
        shards: dict[Path, set[str]] = {}
        for name, file in read_json(index)['weight_map'].items():
            shards.setdefault(self.folder / file, set()).add(name)
        return shards

    def read(self, name: str) -> Tensor:
        """Memory-mapped tensor in its stored type, on the CPU."""
        with safe_open(self._shard[name], framework='pt') as shard:
            return shard.get_tensor(name)


class RandomWeights:
    """Seeded tensors of given shapes, scaled so that activations neither vanish nor grow.

    A tensor depends on its name, its shape and its salt alone, so two checkpoints share what has
    the same name and salt. `salts` maps names to salts; other names have none.
    """

    def __init__(self, headers: Mapping[str, Header], salts: Mapping[str, str] | None = None,
                 device: torch.device | str = 'cpu'):
        self.headers = dict(headers)
        self._salts = salts or {}
        self._device = torch.device(device)

    def read(self, name: str) -> Tensor:
        """The tensor in its declared type; drawn in fp32 on the device."""
        header = self.headers[name]
        seed = zlib.crc32(f'{self._salts.get(name, "")}:{name}'.encode())
        generator = torch.Generator(self._device).manual_seed(seed)
        values = torch.randn(header.shape, generator=generator, device=self._device)
        return self._scale(name, values).to(header.dtype)

    @staticmethod
    def _scale(name: str, values: Tensor) -> Tensor:
        kind = name.rsplit('.', 1)[-1]
        if 'norm' in name and kind == 'weight' or kind == 'gamma':
            return 1 + 0.1 * values
        if kind == 'bias' or values.ndim < 2 or 'action_modality' in name or '.bias.' in name:
            return 0.1 * values
        if 'embed_tokens' in name or 'position_embedding' in name:
            return values
        if '.fc.weight' in name:        # [domains, inputs * outputs]
            return values * 0.1
        return values / math.sqrt(math.prod(values.shape[1:]))


def _read_headers(path: Path) -> dict[str, Header]:
    """Parse a safetensors header and check the file's size against it."""
    if not path.is_file():
        raise CheckpointError(f'{path}: no such shard, wanted because the index names it; '
                              'download the checkpoint again')
    size = path.stat().st_size
    with path.open('rb') as file:
        length = int.from_bytes(file.read(8), 'little')
        text = file.read(length) if 8 + length <= size else b''
    try:
        entries = json.loads(text)
    except ValueError:
        raise CheckpointError(f'{path}: {size} bytes, and no readable safetensors header: '
                              'truncated or not a safetensors file; download it again') from None
    entries.pop('__metadata__', None)
    wanted = 8 + length + max((e['data_offsets'][1] for e in entries.values()), default=0)
    if size != wanted:
        raise CheckpointError(f'{path}: {size} bytes, wanted {wanted} by its header; '
                              'the download was cut short or damaged: download it again')
    return {name: _header(path, name, entry) for name, entry in entries.items()}


def _header(path: Path, name: str, entry: Mapping) -> Header:
    if entry['dtype'] not in DTYPES:
        raise CheckpointError(f'{path}: {name} is stored as {entry["dtype"]}, wanted one of '
                              f'{", ".join(DTYPES)}; convert the checkpoint')
    return Header(tuple(entry['shape']), DTYPES[entry['dtype']])


def read_json(path: Path) -> dict:
    """Read a JSON object; raises CheckpointError that names the file."""
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        raise CheckpointError(f'{path}: no such file; a checkpoint in the diffusers layout has '
                              'one: is this the right folder?') from None
    except ValueError as error:
        raise CheckpointError(f'{path}: not readable as JSON ({error})') from None


def check_headers(headers: Mapping[str, Header], wanted: Mapping[str, tuple[int, ...]],
                  source: str, ignore: tuple[str, ...] = ()) -> None:
    """Compare stored names and shapes with those of the network; raises CheckpointError."""
    missing = sorted(set(wanted) - set(headers))
    extra = sorted(n for n in set(headers) - set(wanted) if not n.startswith(ignore or ('\0',)))
    wrong = [f'{n} is {headers[n].shape}, wanted {tuple(shape)}'
             for n, shape in wanted.items() if n in headers and headers[n].shape != tuple(shape)]
    for problem, names in (('missing', missing), ('unknown to its config.json', extra),
                           ('of another shape', wrong)):
        if names:
            raise CheckpointError(
                f'{source}: {len(names)} of {len(wanted)} tensors {problem}: {_some(names)}; '
                'config.json and weights must come from the same checkpoint')


def _some(names: list[str]) -> str:
    return ', '.join(names[:3]) + (f' and {len(names) - 3} more' if len(names) > 3 else '')
