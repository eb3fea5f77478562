# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint holds and what it takes to run it, without loading it."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
import math

import torch

from .checkpoint import Checkpoint, open_checkpoint
from .names import FP32, understands
from .weights import Header

COMPUTE_TYPES = {'bf16': torch.bfloat16, 'fp32': torch.float32}


@dataclass
class Part:
    """One part of a checkpoint: `read` gives a tensor of it by name."""

    name: str
    headers: Mapping[str, Header]
    read: Callable[[str], torch.Tensor]
    shared: set[str] = field(default_factory=set)

    def parameters(self, names: set[str] | None = None) -> int:
        return sum(math.prod(self.headers[n].shape) for n in names or self.headers)

    def stored_bytes(self) -> int:
        return sum(header.nbytes for header in self.headers.values())

    def device_bytes(self, dtype: torch.dtype) -> int:
        """Bytes on the device in a compute type, without what another checkpoint shares."""
        return sum(math.prod(header.shape) * (4 if name.startswith(FP32) else dtype.itemsize)
                   for name, header in self.headers.items() if name not in self.shared)


def inspect(reference: str, base: str | None = None) -> str:
    """Describe a checkpoint; with `base`, what it adds to that one. Raises CheckpointError."""
    parts = _parts(open_checkpoint(reference))
    title = f'checkpoint {reference}'
    if base is not None:
        _find_shared(parts, _parts(open_checkpoint(base)))
        title += f', beside {base}'
    return '\n'.join([title, *_table(parts), *_memory(parts, base is not None)])


def _parts(checkpoint: Checkpoint) -> list[Part]:
    headers = checkpoint.transformer.headers
    towers = {'understanding (UND)': {n: h for n, h in headers.items() if understands(n)},
              'generation (GEN)': {n: h for n, h in headers.items()
                                   if n.startswith('layers.') and not understands(n)}}
    rest = set(headers) - {n for tower in towers.values() for n in tower}
    towers['heads and time embedder'] = {n: headers[n] for n in sorted(rest)}
    parts = [Part(name, tower, checkpoint.transformer.read) for name, tower in towers.items()]
    parts.append(Part('VAE', checkpoint.vae.headers, checkpoint.vae.read))
    if checkpoint.vision is not None:
        parts.append(Part('vision encoder', checkpoint.vision.headers, checkpoint.vision.read))
    return parts


def _find_shared(parts: list[Part], base: list[Part]) -> None:
    """Compare tensor by tensor, as loading does."""
    others = {part.name: part for part in base}
    for part in parts:
        other = others.get(part.name)
        if other is None:
            continue
        part.shared = {name for name, header in part.headers.items()
                       if other.headers.get(name) == header
                       and torch.equal(part.read(name), other.read(name))}


def _table(parts: list[Part]) -> list[str]:
    rows = [f'{"part":24} {"tensors":>8} {"parameters":>12} {"stored":>10} {"shared":>8}']
    rows += [f'{part.name:24} {len(part.headers):8} {_count(part.parameters()):>12} '
             f'{_size(part.stored_bytes()):>10} {len(part.shared):8}' for part in parts]
    total = sum(len(part.headers) for part in parts)
    return [*rows, f'{"all":24} {total:8} {_count(sum(p.parameters() for p in parts)):>12} '
            f'{_size(sum(p.stored_bytes() for p in parts)):>10} '
            f'{sum(len(p.shared) for p in parts):8}']


def _memory(parts: list[Part], beside: bool) -> list[str]:
    needed = {name: sum(part.device_bytes(dtype) for part in parts)
              for name, dtype in COMPUTE_TYPES.items()}
    what = 'memory that its weights add' if beside else 'memory that its weights need'
    return [f'{what}: ' + ', '.join(f'{_size(n)} in {name}' for name, n in needed.items())]


def _count(parameters: int) -> str:
    return f'{parameters / 1e9:.2f} B' if parameters >= 1e8 else f'{parameters / 1e6:.2f} M'


def _size(count: int) -> str:
    return f'{count / 1e9:.2f} GB' if count >= 1e8 else f'{count / 1e6:.2f} MB'
