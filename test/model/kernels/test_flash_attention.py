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

COMPILED = [('bf16', 128, True), ('fp16', 72, False), ('fp8e4nv', 128, False)]

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


def compiled(kind, size, causal):
    """Bytes of shared memory, products on tensor cores, uses of a thread's own memory."""
    kernel, names = module._flash_attention, module._flash_attention.arg_names
    wide = 'bf16' if kind == 'fp8e4nv' else kind

    def described(name):
        block = [KEYS, triton.next_power_of_2(size)]
        layout = gl.NVMMASharedLayout.get_default_for(block, gl.dtype(name))
        return f'tensordesc<{name}{block},{layout!r}>'
    types = {'q': f'*{kind}', 'keys': described(kind), 'values': described(wide),
             'out': f'*{wide}', 'rows': 'i32', 'count': 'i32', 'q_stride': 'i32', 'scale': 'fp32'}
    constants = {'G': 2, 'HEADS': 16, 'SIZE': size, 'STAGES': STAGES, 'CAUSAL': causal}
    aligned = {(names.index(name),): [['tt.divisibility', 16]]
               for name in ('q', 'out', 'q_stride')}
    source = GluonASTSource(kernel, {name: types.get(name, 'constexpr') for name in names},
                            {(names.index(name),): value for name, value in constants.items()},
                            aligned)
    made = triton.compile(source, target=GPUTarget('cuda', 90, 32), options={'num_warps': 4})
    code = made.asm['ptx']
    return made.metadata.shared, code.count('wgmma.mma_async'), code.count('.local')


def reference(q, k, v, causal=False):
    out = F.scaled_dot_product_attention(*(x.float().transpose(1, 2) for x in (q, k, v)),
                                         is_causal=causal, enable_gqa=True)
    return out.transpose(1, 2).flatten(2)


@hopper
@pytest.mark.parametrize('queries, keys', [
    (1, 1), (64, 128), (65, 129), (300, 127), (129, 640), (3093, 3343)])
@pytest.mark.parametrize('heads, kv_heads, size, fp8', [
    (16, 8, 128, False), (16, 8, 128, True), (4, 4, 64, False), (3, 3, 72, False),
    (8, 1, 128, False)])
@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_is_attention(queries, keys, heads, kv_heads, size, fp8, dtype):
    kind = FP8 if fp8 else dtype
    q = torch.randn(1, queries + 3, 2 * heads, size, device='cuda').to(kind)[:, 3:, :heads]
    k, v = (torch.randn(1, keys + 2, kv_heads, size, device='cuda').to(form)[:, 1:-1]
            for form in (kind, dtype))
    around = torch.full((1, queries + 2, heads * size), 7.0, device='cuda', dtype=dtype)
    flash_attention(q, k, v, around[:, 1:-1])
    wanted = reference(q, k, v)
    error = (around[:, 1:-1].float() - wanted).norm() / wanted.norm()
    assert error <= 2 * torch.finfo(dtype).eps
    assert (around[:, [0, -1]] == 7).all()


@hopper
@pytest.mark.parametrize('count', [1, 64, 65, 128, 352, 1200])
@pytest.mark.parametrize('heads, kv_heads, size', [(16, 8, 128), (16, 16, 72)])
@pytest.mark.parametrize('causal', [False, True])
def test_sequences_do_not_see_each_other(count, heads, kv_heads, size, causal):
    joined = torch.randn(4, count, heads + 2 * kv_heads, size, device='cuda').bfloat16()
    q, k, v = joined.split([heads, kv_heads, kv_heads], 2)
    out = torch.empty(4, count, heads * size, device='cuda', dtype=torch.bfloat16)
    flash_attention(q, k, v, out, causal)
    wanted = reference(q, k, v, causal)
    assert (out.float() - wanted).norm() <= 2**-6 * wanted.norm()


@hopper
def test_keys_of_large_scores():
    """Blocks whose scores are all far below another's count for nothing, not for nan."""
    q, k, v = (torch.randn(1, 500, 2, 128, device='cuda').bfloat16() for _ in 'qkv')
    k[:, :128] *= 200
    out = torch.empty(1, 500, 256, device='cuda', dtype=torch.bfloat16)
    flash_attention(q, k, v, out)
    wanted = reference(q, k, v)
    assert (out.float() - wanted).norm() <= 2**-6 * wanted.norm()


def test_is_not_for_a_cpu():
    assert not suits(torch.device('cpu'), torch.bfloat16, 128)


if __name__ == '__main__':
    for asked in COMPILED:
        print(*compiled(*asked))
