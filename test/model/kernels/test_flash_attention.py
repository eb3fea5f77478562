# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The attention kernel against PyTorch's in fp32, and whether it compiles at all."""
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

triton = pytest.importorskip('triton')
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.experimental.gluon import language as gl  # noqa: E402
from triton.experimental.gluon._runtime import GluonASTSource  # noqa: E402

from cosmos3_ros.model.kernels import flash_attention as module  # noqa: E402
from cosmos3_ros.model.kernels.flash_attention import (  # noqa: E402
    FP8,
    HOPPER,
    KEYS,
    STAGES,
    flash_attention,
    suits,
)

COMPILED = [('bf16', 128), ('fp16', 64), ('fp8e4nv', 128)]

hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != HOPPER,
    reason='the kernel is made for Hopper, and Triton cannot interpret Gluon')


def test_compiles_without_a_device(tmp_path):
    """For Hopper: products on its tensor cores, and all that a thread holds fits registers."""
    environment = os.environ | {'TRITON_INTERPRET': '0', 'TRITON_CACHE_DIR': str(tmp_path)}
    ended = subprocess.run([sys.executable, __file__], env=environment, capture_output=True,
                           text=True)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert len(lines) == len(COMPILED)
    for line in lines:
        shared, products, local = map(int, line.split())
        assert shared <= 227 * 1024 and products > 0 and local == 0


def compiled(kind, size):
    """Bytes of shared memory, products on tensor cores, uses of a thread's own memory."""
    kernel, names = module._flash_attention, module._flash_attention.arg_names
    wide = 'bf16' if kind == 'fp8e4nv' else kind

    def described(name):
        layout = gl.NVMMASharedLayout.get_default_for([KEYS, size], gl.dtype(name))
        return f'tensordesc<{name}[{KEYS}, {size}],{layout!r}>'
    types = {'q': f'*{kind}', 'keys': described(kind), 'values': described(wide),
             'out': f'*{wide}', 'rows': 'i32', 'count': 'i32', 'q_stride': 'i32', 'scale': 'fp32'}
    constants = {'G': 2, 'HEADS': 16, 'STAGES': STAGES}
    aligned = {(names.index(name),): [['tt.divisibility', 16]]
               for name in ('q', 'out', 'q_stride')}
    source = GluonASTSource(kernel, {name: types.get(name, 'constexpr') for name in names},
                            {(names.index(name),): value for name, value in constants.items()},
                            aligned)
    made = triton.compile(source, target=GPUTarget('cuda', 90, 32), options={'num_warps': 4})
    code = made.asm['ptx']
    return made.metadata.shared, code.count('wgmma.mma_async'), code.count('.local')


@hopper
@pytest.mark.parametrize('queries, keys', [
    (1, 1), (64, 128), (65, 129), (300, 127), (129, 640), (3093, 3343)])
@pytest.mark.parametrize('heads, kv_heads, size', [(16, 8, 128), (4, 4, 64), (8, 1, 128)])
@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
@pytest.mark.parametrize('fp8', [False, True])
def test_is_attention(queries, keys, heads, kv_heads, size, dtype, fp8):
    kind = FP8 if fp8 else dtype
    q = torch.randn(queries + 3, 2 * heads, size, device='cuda').to(kind)[3:, :heads]
    k, v = (torch.randn(keys + 2, kv_heads, size, device='cuda').to(form)[1:-1]
            for form in (kind, dtype))
    around = torch.full((queries + 2, heads * size), 7.0, device='cuda', dtype=dtype)
    flash_attention(q, k, v, around[1:-1])
    wanted = F.scaled_dot_product_attention(
        *(x.float().transpose(0, 1)[None] for x in (q, k, v)), enable_gqa=True)
    wanted = wanted[0].transpose(0, 1).flatten(1)
    error = (around[1:-1].float() - wanted).norm() / wanted.norm()
    assert error <= 2 * torch.finfo(dtype).eps
    assert (around[[0, -1]] == 7).all()


@hopper
def test_keys_of_large_scores():
    """Blocks whose scores are all far below another's count for nothing, not for nan."""
    q, k, v = (torch.randn(500, 2, 128, device='cuda').bfloat16() for _ in 'qkv')
    k[:128] *= 200
    out = torch.empty(500, 256, device='cuda', dtype=torch.bfloat16)
    flash_attention(q, k, v, out)
    wanted = F.scaled_dot_product_attention(*(x.float().transpose(0, 1)[None] for x in (q, k, v)))
    error = out.float() - wanted[0].transpose(0, 1).flatten(1)
    assert error.norm() <= 2**-6 * wanted.norm()


def test_is_not_for_a_cpu():
    assert not suits(torch.device('cpu'), torch.bfloat16, 128)


if __name__ == '__main__':
    for asked in COMPILED:
        print(*compiled(*asked))
