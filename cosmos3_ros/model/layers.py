# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Building blocks of both towers and of the generation heads."""
from __future__ import annotations

from collections.abc import Sequence
import math

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
import torch.nn.functional as F

from .config import TransformerConfig
from .kernels.flash_attention import flash_attention, suits
from .kernels.quantize import Quantized, quantize


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis.

    With `one_rounding` (Nemotron) the weight is multiplied in fp32 before the only rounding;
    without it (Qwen) the normalised values are rounded to the weight's type first.
    """

    def __init__(self, size: int, eps: float, one_rounding: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.eps = eps
        self.one_rounding = one_rounding

    def forward(self, x: Tensor) -> Tensor:
        if self.one_rounding:
            return F.rms_norm(x.float(), self.weight.shape, self.weight.float(),
                              self.eps).to(x.dtype)
        return self.weight * F.rms_norm(x.float(), self.weight.shape, None, self.eps).to(x.dtype)


def norm(config: TransformerConfig, size: int) -> RMSNorm:
    """Norm of the checkpoint's kind: Nemotron's goes with relu2, Qwen's with silu."""
    return RMSNorm(size, config.rms_norm_eps, one_rounding=config.hidden_act == 'relu2')


class Dense:
    """A product with weights that belong to a module: x [N, in] -> [N, out]."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self._weight, self._bias)


class WideDense(Dense):
    """A product that is given as it was summed, in fp32, on devices that can."""

    def __call__(self, x: Tensor) -> Tensor:
        if not x.is_cuda or x.dtype == torch.float32:
            return super().__call__(x)
        out = torch.mm(x, self._weight.T, out_dtype=torch.float32)
        return out if self._bias is None else out + self._bias


class Fp8Dense:
    """A product in 8-bit floating point, with a scale for every row of both sides."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        self._weight, scale = quantize(weight)
        self._scale = scale.T.contiguous()          # [1, out]
        self._bias = bias
        self._dtype = weight.dtype

    def __call__(self, x: Quantized) -> Tensor:
        if x.values.is_cuda:
            out = torch._scaled_mm(x.values, self._weight.T, x.scale, self._scale,
                                   out_dtype=self._dtype, use_fast_accum=True)
        else:
            out = ((x.values.float() @ self._weight.float().T) * x.scale * self._scale
                   ).to(self._dtype)
        return out if self._bias is None else out + self._bias


class MLP(nn.Module):
    """Feed-forward block: relu squared (up, down) or gated silu (gate, up, down)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = (nn.Linear(hidden, inner, bias=False)
                          if config.hidden_act == 'silu' else None)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate_proj is None:
            return self.down_proj(F.relu(self.up_proj(x)).square())
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DomainLinear(nn.Module):
    """Linear layer with one weight and bias per embodiment domain: y = x @ W[d] + b[d]."""

    def __init__(self, inputs: int, outputs: int, domains: int):
        super().__init__()
        self.fc = nn.Embedding(domains, inputs * outputs)
        self.bias = nn.Embedding(domains, outputs)
        self.inputs = inputs
        self.outputs = outputs

    def forward(self, x: Tensor, domain: int) -> Tensor:
        weight = self.fc.weight[domain].view(self.inputs, self.outputs).to(x.dtype)
        return x @ weight + self.bias.weight[domain]


class TimeEmbedder(nn.Module):
    """Embedding of the diffusion time, in fp32 whatever the type of the network.

    Sinusoids of 256 channels, cosines first, then linear, silu, linear (bf16 here costs
    0.1 to 0.3 % of the output).
    """

    CHANNELS = 256

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.linear_1 = nn.Linear(self.CHANNELS, config.hidden_size)
        self.linear_2 = nn.Linear(config.hidden_size, config.hidden_size)
        self.scale = config.timestep_scale

    def sinusoids(self, timestep: Tensor) -> Tensor:
        """[N] integer timesteps -> [N, 256] fp32."""
        half = self.CHANNELS // 2
        exponent = -math.log(10000) * torch.arange(half, dtype=torch.float32,
                                                   device=timestep.device) / half
        angles = (timestep * self.scale).float()[:, None] * exponent.exp()
        return torch.cat([angles.cos(), angles.sin()], dim=-1)

    def forward(self, timestep: Tensor) -> Tensor:
        """[N] integer timesteps -> [N, hidden] fp32."""
        return self.linear_2(F.silu(self.linear_1(self.sinusoids(timestep))))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions to x [N, H, D] with cos and sin [N, D]."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return x * cos[:, None] + turned * sin[:, None]


# Fastest first for long sequences; what a shape or a machine lacks is passed over. cuDNN plans for
# each shape anew, so short sequences of many lengths are not worth it.
BACKENDS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION,
            SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def attend_in_each(q: Tensor, k: Tensor, v: Tensor, causal: bool = False,
                   backends: Sequence[SDPBackend] = BACKENDS[1:]) -> Tensor:
    """Grouped-query attention in each of n sequences: q [n, N, H, D], k and v [n, M, K, D].

    Returns [n, N, H * D]. `backends`: of the library, where there is no kernel of ours.
    """
    if suits(v.device, v.dtype, v.shape[3]):
        out = v.new_empty(*q.shape[:2], q.shape[2] * q.shape[3])
        flash_attention(q, k, v, out, causal)
        return out
    with sdpa_kernel(list(backends), set_priority=True):
        out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2),
                                             v.transpose(1, 2), is_causal=causal, enable_gqa=True)
    return out.transpose(1, 2).flatten(2)


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    """`attend_in_each` of one long sequence: q [N, H, D], k and v [M, K, D] -> [N, H * D]."""
    return attend_in_each(q[None], k[None], v[None], causal, BACKENDS)[0]


def attend_in_full(q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> None:
    """What `attend` gives without a mask, in `out` [N, H * D]; a kernel may take fp8 q and k."""
    if suits(v.device, v.dtype, v.shape[2]):
        flash_attention(q[None], k[None], v[None], out[None])
    else:
        out.copy_(attend(q, k, v))


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Tensors one behind the other along the first axis, without a copy if they lie so."""
    first, place = parts[0], parts[0].data_ptr()
    for part in parts:
        if part.data_ptr() != place or not part.is_contiguous():
            return torch.cat(list(parts))
        place += part.nbytes
    if place > first.untyped_storage().data_ptr() + first.untyped_storage().nbytes():
        return torch.cat(list(parts))       # neighbours by chance
    size = (sum(len(part) for part in parts), *first.shape[1:])
    return first.detach().as_strided(size, first.stride())
