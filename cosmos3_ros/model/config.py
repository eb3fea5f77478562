# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes and switches of the transformer, read from the checkpoint's own JSON."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: names the file or field, what was found and wanted."""


@dataclass(frozen=True)
class TransformerConfig:
    """Knobs of ``transformer/config.json``, under the names used there.

    Every field must be present in the file: a default that differs from the checkpoint's value
    would change the output without an error.
    """

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    hidden_act: str
    rms_norm_eps: float
    attention_bias: bool
    vocab_size: int
    rope_theta: float
    rope_axes_dim: tuple[int, int, int]
    qk_norm_for_text: bool
    use_und_k_norm_for_gen: bool
    latent_channel: int
    latent_patch_size: int
    timestep_scale: float
    base_fps: float
    enable_fps_modulation: bool
    unified_3d_mrope_temporal_modality_margin: int
    unified_3d_mrope_reset_spatial_ids: bool
    action_gen: bool
    action_dim: int | None
    num_embodiment_domains: int

    @property
    def patch_latent_dim(self) -> int:
        """Values of one vision token."""
        return self.latent_channel * self.latent_patch_size**2

    @classmethod
    def from_json(cls, values: Mapping[str, Any], source: str) -> TransformerConfig:
        """Read and check the fields; `source` names the file in errors.

        Raises CheckpointError for a missing field or a value this package does not implement.
        """
        values = dict(values)
        if values.get('rope_axes_dim') is None:
            values['rope_axes_dim'] = (values.get('rope_scaling') or {}).get('mrope_section')
        wanted = [field.name for field in fields(cls)]
        optional = {'action_dim'} if not values.get('action_gen', True) else set()
        missing = [n for n in wanted if values.get(n) is None and n not in optional]
        if missing:
            raise CheckpointError(
                f'{source}: missing {", ".join(missing)}; these change the output silently, so '
                'they have no defaults here: take the config.json that came with the weights')
        values['rope_axes_dim'] = tuple(values['rope_axes_dim'])
        config = cls(**{name: values.get(name) for name in wanted})
        config._check(source, values)
        return config

    def _check(self, source: str, values: Mapping[str, Any]) -> None:
        half = self.head_dim // 2
        rules = {
            'hidden_act': (self.hidden_act, self.hidden_act in ('relu2', 'silu'), 'relu2 or silu'),
            'rope_axes_dim': (self.rope_axes_dim, len(self.rope_axes_dim) == 3
                              and sum(self.rope_axes_dim) == half,
                              f'three numbers whose sum is head_dim / 2 = {half}'),
            'num_key_value_heads': (self.num_key_value_heads,
                                    self.num_attention_heads % self.num_key_value_heads == 0,
                                    f'a divisor of {self.num_attention_heads} heads'),
            'enable_fps_modulation': (self.enable_fps_modulation, self.enable_fps_modulation,
                                      'true'),
            'unified_3d_mrope_reset_spatial_ids': (
                self.unified_3d_mrope_reset_spatial_ids,
                self.unified_3d_mrope_reset_spatial_ids, 'true'),
            'patch_latent_dim': (values.get('patch_latent_dim'),
                                 values.get('patch_latent_dim') == self.patch_latent_dim,
                                 f'latent_channel x latent_patch_size^2 = {self.patch_latent_dim}'),
        }
        for name, (found, holds, expected) in rules.items():
            if not holds:
                raise CheckpointError(f'{source}: {name} is {found!r}, wanted {expected}')
