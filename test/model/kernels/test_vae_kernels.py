# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The VAE's kernels against their twins in plain torch, on CUDA or through the interpreter."""
import os

import pytest
import torch

from cosmos3_ros.model.kernels.frame_norm import frame_norm_torch, frame_norm_triton
from cosmos3_ros.model.kernels.upsample import upsample_torch, upsample_triton

CUDA = torch.cuda.is_available()
DEVICE = 'cuda' if CUDA else 'cpu'
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 1e-2}

pytestmark = pytest.mark.skipif(not CUDA and os.environ.get('TRITON_INTERPRET') != '1',
                                reason='needs a CUDA device or TRITON_INTERPRET=1')


def draw(*shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE).to(dtype)


def assert_equal(ours, theirs, dtype):
    assert ours.isfinite().all() and theirs.std() > 0.01
    error = (ours.float() - theirs.float()).abs().max() / theirs.float().abs().max()
    assert error <= TOLERANCE[dtype]


@pytest.mark.parametrize('dtype', TOLERANCE, ids=str)
@pytest.mark.parametrize('frames, lead, terms', [
    (1, 0, 'bias residual gamma'), (1, 1, 'gamma'), (1, 2, 'bias gamma past'), (1, 0, 'gamma'),
    (4, 2, 'bias residual gamma past'), (2, 2, 'residual past'), (2, 2, '')], ids=str)
@pytest.mark.parametrize('size', [(3, 5, 12), (2, 3, 160), (1, 1, 6)], ids=str)
def test_frame_norm_equals_its_twin(size, frames, lead, terms, dtype):
    height, width, channels = size
    shapes = {'bias': [channels], 'residual': [frames, *size], 'gamma': [channels],
              'past': [2, *size]}
    given = {name: draw(*shapes[name], dtype=dtype) for name in terms.split()}
    x, results = draw(frames, *size, dtype=dtype), []
    for call in (frame_norm_torch, frame_norm_triton):
        written = [torch.full((count, *size), torch.nan, dtype=dtype, device=DEVICE)
                   for count in (lead + frames, frames, 2)]
        out, total, recent = written
        call(x, out, silu='gamma' in given, total=total,
             recent=recent if lead == 2 else None, **given)
        results.append(written if lead == 2 else written[:2])
    for theirs, ours in zip(*results, strict=True):
        assert_equal(ours, theirs, dtype)
    if lead == 2:
        assert torch.equal(ours, results[1][0][-2:])


@pytest.mark.parametrize('dtype', TOLERANCE, ids=str)
@pytest.mark.parametrize('channels', [(12, 12), (24, 12), (40, 10)], ids=str)
@pytest.mark.parametrize('frames, count, repeat', [(1, 1, 1), (4, 4, 1), (1, 1, 2), (2, 4, 2)])
def test_upsample_equals_its_twin(frames, count, repeat, channels, dtype):
    inputs, outputs = channels
    x = draw(frames, 3, 5, inputs, dtype=dtype)
    y, bias = draw(count, 4, 6, 4 * outputs, dtype=dtype), draw(outputs, dtype=dtype)
    assert_equal(upsample_triton(y, bias, x, repeat), upsample_torch(y, bias, x, repeat), dtype)
