# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Equal tensors of two checkpoints are kept once."""
import json
import re
import shutil

import pytest
from safetensors.torch import load_file, save_file
import torch

from cosmos3_ros.model.checkpoint import load
from cosmos3_ros.model.names import stored_name

GENERATION = re.compile(
    r'_moe_gen|\.(add_[qkv]_proj|to_add_out|norm_added_[qk])\.|^proj_(in|out)\.|^action_|'
    r'^time_embedder\.')


def tensors(model):
    """Transformer parameters by stored name."""
    return {stored_name(name): p for name, p in model.transformer.named_parameters()}


def shared(model, other):
    mine, others = tensors(model), tensors(other)
    assert mine.keys() == others.keys() and len(mine) == 19 * 2 + 17
    return {name for name in mine if mine[name].data_ptr() == others[name].data_ptr()}


def vae_tensors(model):
    """Tensors of the VAE, whatever holds them."""
    return [p for value in vars(model.vae).values() if isinstance(value, torch.nn.Module)
            for p in value.parameters()]


@pytest.fixture(scope='module')
def pair(tiny, tiny_droid_folder):
    return tiny, load(str(tiny_droid_folder), share_with=[tiny])


def test_understanding_tower_is_shared_and_generation_tower_is_not(pair):
    assert shared(*pair) == {name for name in tensors(pair[0]) if not GENERATION.search(name)}


def test_generation_towers_differ(pair):
    base, policy = (tensors(model) for model in pair)
    different = {name for name in base if not torch.equal(base[name], policy[name])}
    assert {name for name in different if name.startswith('layers.')} == {
        name for name in base if name.startswith('layers.') and GENERATION.search(name)}


def test_vae_is_shared(pair):
    base, policy = (vae_tensors(model) for model in pair)
    assert base and [p.data_ptr() for p in base] == [p.data_ptr() for p in policy]


def test_sharing_changes_no_output(pair, tiny_droid_folder):
    alone, policy = load(str(tiny_droid_folder)), pair[1]
    assert not shared(alone, policy)
    assert all(torch.equal(mine, tensors(policy)[name]) for name, mine in tensors(alone).items())


@pytest.mark.parametrize('name', [
    'layers.0.mlp.up_proj.weight', 'layers.1.self_attn.k_norm_und_for_gen.weight', 'norm.weight'])
def test_one_changed_tensor_is_the_one_kept_apart(pair, tiny_droid_folder, tmp_path, name):
    folder = shutil.copytree(tiny_droid_folder, tmp_path / 'changed')
    index = folder / 'transformer' / 'diffusion_pytorch_model.safetensors.index.json'
    shard = folder / 'transformer' / json.loads(index.read_text())['weight_map'][name]
    values = load_file(shard)
    values[name].view(-1)[-1] += 1e-3
    save_file(values, shard, metadata={'format': 'pt'})

    changed = load(str(folder), share_with=[pair[0]])
    assert shared(*pair) - shared(pair[0], changed) == {name}
    assert torch.equal(tensors(changed)[name], values[name])
    assert not torch.equal(tensors(pair[0])[name], values[name])


def test_another_type_is_not_shared(tiny, tiny_droid_folder):
    policy = load(str(tiny_droid_folder), dtype=torch.bfloat16, share_with=[tiny])
    assert not {name for name in shared(tiny, policy) if not name.startswith('time_embedder.')}
    assert tensors(policy)['norm.weight'].dtype == torch.bfloat16
