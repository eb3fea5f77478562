# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Hub ids are found in the cache; nothing is downloaded."""
import json
import shutil

import huggingface_hub.constants
import pytest
import torch

from cosmos3_ros.model.checkpoint import load, open_checkpoint, resolve
from cosmos3_ros.model.config import CheckpointError

OLD, NEW = 'a' * 40, 'b' * 40


@pytest.fixture
def cache(tiny_folder, tiny_droid_folder, tmp_path, monkeypatch):
    """A cache with two revisions of somebody/Tiny: `v1` is tiny, `main` is tiny-droid."""
    monkeypatch.setattr(huggingface_hub.constants, 'HF_HUB_CACHE', str(tmp_path))
    assert huggingface_hub.constants.HF_HUB_OFFLINE
    repository = tmp_path / 'models--somebody--Tiny'
    (repository / 'refs').mkdir(parents=True)
    for ref, commit, folder in (('v1', OLD, tiny_folder), ('main', NEW, tiny_droid_folder)):
        (repository / 'refs' / ref).write_text(commit)
        shutil.copytree(folder, repository / 'snapshots' / commit)
    return repository


@pytest.mark.parametrize('reference, commit', [
    ('somebody/Tiny', NEW), ('somebody/Tiny@main', NEW), ('somebody/Tiny@v1', OLD),
    (f'somebody/Tiny@{OLD}', OLD)])
def test_id_and_revision_lead_to_the_snapshot(cache, reference, commit):
    assert resolve(reference).resolve() == (cache / 'snapshots' / commit).resolve()


def test_model_is_loaded_from_the_cache(cache, tiny):
    model = load('somebody/Tiny@v1')
    assert all(torch.equal(ours, wanted) for ours, wanted in zip(
        model.transformer.parameters(), tiny.transformer.parameters()))
    assert 'somebody/Tiny' in model.name


@pytest.mark.parametrize('reference', ['nobody/Nothing', 'somebody/Tiny@v9'])
def test_what_the_cache_lacks_is_named(cache, reference):
    with pytest.raises(CheckpointError, match=reference):
        open_checkpoint(reference)


def test_shard_missing_in_the_cache_is_named(cache):
    folder = cache / 'snapshots' / NEW / 'transformer'
    index = json.loads((folder / 'diffusion_pytorch_model.safetensors.index.json').read_text())
    shard = sorted(set(index['weight_map'].values()))[-1]
    (folder / shard).unlink()
    with pytest.raises(CheckpointError, match=shard):
        open_checkpoint('somebody/Tiny')


def test_folder_wins_over_an_id_of_the_same_name(cache, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_folder, tmp_path / 'somebody' / 'Tiny')
    assert resolve('somebody/Tiny').resolve() == (tmp_path / 'somebody' / 'Tiny').resolve()
