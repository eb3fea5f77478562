# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that cannot be used are refused before anything is loaded."""
import json
import shutil

import pytest
from safetensors.torch import load_file, save_file
import torch

from cosmos3_ros.model.checkpoint import load, loading, open_checkpoint
from cosmos3_ros.model.config import CheckpointError
from cosmos3_ros.model.weights import Shards

INDEX = 'transformer/diffusion_pytorch_model.safetensors.index.json'
VAE_FILE = 'vae/diffusion_pytorch_model.safetensors'
Q_PROJ = 'layers.1.self_attn.to_q.weight'


@pytest.fixture
def folder(tiny_folder, tmp_path):
    """A copy of the tiny checkpoint to damage."""
    return shutil.copytree(tiny_folder, tmp_path / 'checkpoint')


def edit_json(path, edit):
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values))


def shard_of(folder, name):
    return folder / 'transformer' / json.loads((folder / INDEX).read_text())['weight_map'][name]


def edit_tensors(file, edit):
    tensors = load_file(file)
    edit(tensors)
    save_file(tensors, file, metadata={'format': 'pt'})


def refusal(folder, *words):
    """The message of the refusal; it must hold all the words, and no tensor may be read."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Shards, 'read', lambda *_: pytest.fail('a tensor was read'))
        with pytest.raises(CheckpointError) as refused:
            load(str(folder))
    message = str(refused.value)
    for word in words:
        assert str(word) in message, f'{word!r} not in: {message}'
    return message


def test_tiny_folder_is_accepted(folder):
    assert load(str(folder)).config.num_hidden_layers == 2


def test_loading_yields_after_every_tensor(folder):
    job = loading(open_checkpoint(str(folder)), torch.device('cpu'), torch.float32)
    yields = 0
    while True:
        try:
            next(job)
        except StopIteration as stop:
            assert stop.value.dtype == torch.float32
            break
        yields += 1
    assert yields >= 19 * 2 + 17 + 196


def test_absent_folder_says_what_is_wanted(tmp_path):
    message = refusal(tmp_path / 'nowhere', tmp_path / 'nowhere', 'random:')
    assert 'folder' in message


def test_folder_that_holds_no_checkpoint_is_refused(tmp_path):
    refusal(tmp_path, 'model_index.json', tmp_path)


def test_file_instead_of_a_folder_is_refused(folder):
    refusal(folder / 'config.json', 'config.json', 'folder')


def test_unknown_variant_lists_the_known_ones():
    with pytest.raises(CheckpointError) as refused:
        open_checkpoint('random:huge')
    for word in ('huge', 'tiny', 'tiny-droid', 'edge', 'edge-droid'):
        assert word in str(refused.value)


@pytest.mark.parametrize('file, named', [
    ('model_index.json', 'model_index.json'),
    ('transformer/config.json', 'transformer/config.json'),
    ('vae/config.json', 'vae/config.json'), (INDEX, 'transformer'), (VAE_FILE, 'vae'),
    ('scheduler/scheduler_config.json', 'scheduler/scheduler_config.json'),
    ('text_tokenizer/tokenizer.json', 'text_tokenizer')])
def test_missing_file_is_named(folder, file, named):
    (folder / file).unlink()
    refusal(folder, named)


@pytest.mark.parametrize('file', ['model_index.json', 'transformer/config.json', INDEX])
def test_file_that_is_no_json_is_named(folder, file):
    (folder / file).write_text('{"cut')
    refusal(folder, file)


@pytest.mark.parametrize('file, field', [
    *(('transformer/config.json', field) for field in (
        'num_hidden_layers', 'hidden_size', 'num_attention_heads', 'num_key_value_heads',
        'head_dim', 'intermediate_size', 'hidden_act', 'rms_norm_eps', 'rope_theta',
        'rope_axes_dim', 'qk_norm_for_text', 'use_und_k_norm_for_gen', 'latent_channel',
        'latent_patch_size', 'timestep_scale', 'base_fps', 'enable_fps_modulation',
        'unified_3d_mrope_temporal_modality_margin', 'unified_3d_mrope_reset_spatial_ids',
        'action_gen', 'action_dim', 'num_embodiment_domains', 'vocab_size', 'attention_bias')),
    ('model_index.json', 'use_native_flow_schedule'),
    ('model_index.json', 'default_use_system_prompt'),
    ('scheduler/scheduler_config.json', 'prediction_type'),
    ('vae/config.json', 'scale_factor_spatial'),
    ('vae/config.json', 'latents_mean'),
    ('vae/config.json', 'latents_std'),
])
def test_missing_field_is_named(folder, file, field):
    edit_json(folder / file, lambda values: values.pop(field))
    refusal(folder, file, field)


@pytest.mark.parametrize('file, field, value', [
    ('scheduler/scheduler_config.json', 'prediction_type', 'epsilon'),
    ('transformer/config.json', 'hidden_act', 'gelu'),
    ('transformer/config.json', 'rope_axes_dim', [5, 2, 2]),
    ('vae/config.json', 'z_dim', 48),
    ('vae/config.json', 'scale_factor_spatial', 8),
    ('vae/config.json', 'scale_factor_temporal', 8),
])
def test_value_that_is_not_implemented_is_named(folder, file, field, value):
    edit_json(folder / file, lambda values: values.update({field: value}))
    refusal(folder, field, value if isinstance(value, (str, int)) else value[-1])


def test_schedule_of_the_file_does_not_matter(folder):
    edit_json(folder / 'scheduler/scheduler_config.json',
              lambda values: values.update(use_karras_sigmas=True, flow_shift=1.0))
    open_checkpoint(str(folder))


def test_truncated_shard_names_file_size_and_wanted_size(folder):
    shard = shard_of(folder, Q_PROJ)
    whole = shard.stat().st_size
    with shard.open('r+b') as file:
        file.truncate(whole - 1000)
    message = refusal(folder, shard.name).replace(',', '').replace('_', '')
    assert str(whole) in message and str(whole - 1000) in message


def test_truncated_vae_is_refused_before_the_transformer_loads(folder):
    with (folder / VAE_FILE).open('r+b') as file:
        file.truncate(100_000)
    refusal(folder, VAE_FILE)


@pytest.mark.parametrize('length', [0, 4, 100])
def test_shard_cut_within_its_header_is_named(folder, length):
    shard = shard_of(folder, Q_PROJ)
    with shard.open('r+b') as file:
        file.truncate(length)
    refusal(folder, shard.name)


def test_missing_shard_is_named(folder):
    shard = shard_of(folder, Q_PROJ)
    shard.unlink()
    refusal(folder, shard.name)


def test_tensor_in_the_index_but_not_in_its_shard_is_named(folder):
    edit_tensors(shard_of(folder, Q_PROJ), lambda tensors: tensors.pop(Q_PROJ))
    refusal(folder, Q_PROJ)


def test_missing_tensor_is_named(folder):
    edit_tensors(shard_of(folder, Q_PROJ), lambda tensors: tensors.pop(Q_PROJ))
    edit_json(folder / INDEX, lambda index: index['weight_map'].pop(Q_PROJ))
    refusal(folder, Q_PROJ)


def test_missing_tensor_of_the_vae_is_named(folder):
    name = 'quant_conv.bias'
    edit_tensors(folder / VAE_FILE, lambda tensors: tensors.pop(name))
    refusal(folder, name)


def test_wrong_shape_names_both_shapes(folder):
    edit_tensors(shard_of(folder, Q_PROJ),
                 lambda tensors: tensors.update({Q_PROJ: torch.zeros(48, 64)}))
    refusal(folder, Q_PROJ, '48', '64')


def test_unknown_tensor_is_named(folder):
    shard, name = shard_of(folder, Q_PROJ), 'layers.1.self_attn.adapter.weight'
    edit_tensors(shard, lambda tensors: tensors.update({name: torch.zeros(4)}))
    edit_json(folder / INDEX, lambda index: index['weight_map'].update({name: shard.name}))
    refusal(folder, name)


@pytest.mark.parametrize('layers', [1, 3])
def test_number_of_layers_must_be_that_of_the_file(folder, layers):
    edit_json(folder / 'transformer/config.json',
              lambda values: values.update(num_hidden_layers=layers))
    refusal(folder, f'layers.{min(layers, 2)}.')


@pytest.mark.parametrize('name, dtype', [
    (Q_PROJ, torch.float8_e4m3fn), (Q_PROJ, torch.int8),
    ('time_embedder.linear_1.weight', torch.bfloat16)], ids=str)
def test_type_that_cannot_be_computed_with_is_named(folder, name, dtype):
    edit_tensors(shard_of(folder, name),
                 lambda tensors: tensors.update({name: tensors[name].to(dtype)}))
    refusal(folder, name)


def test_published_types_are_accepted(folder):
    """bf16, and fp32 for the time embedder."""
    for shard in (folder / 'transformer').glob('*.safetensors'):
        edit_tensors(shard, lambda tensors: tensors.update({
            name: value.bfloat16() for name, value in tensors.items()
            if not name.startswith('time_embedder.')}))
    edit_tensors(folder / VAE_FILE, lambda tensors: tensors.update(
        {name: value.bfloat16() for name, value in tensors.items()}))
    model = load(str(folder))
    assert {p.dtype for p in model.transformer.parameters()} == {torch.float32}
