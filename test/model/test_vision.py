# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The vision encoder against transformers, and its loading."""
import json
import shutil

import pytest
from safetensors.torch import load_file, save_file
import torch
from transformers import Cosmos3EdgeConfig, Cosmos3EdgeForConditionalGeneration

from cosmos3_ros.model.checkpoint import load, open_checkpoint
from cosmos3_ros.model.config import CheckpointError
from reasoner import QUESTIONS, patches, reference_inputs


def encode(model, question):
    prompt = model.processor.encode(question.text, question.pictures, question.videos)
    return model.vision(torch.cat([patches(model, span) for span in prompt.spans]),
                        [span.grid for span in prompt.spans]), prompt


@pytest.mark.parametrize('name', ['picture', 'three pictures', 'video'])
def test_tokens_are_those_of_transformers(tiny, reference_reasoner, reference_processor, name):
    tokens, _ = encode(tiny, QUESTIONS[name])
    wanted = reference_inputs(reference_processor, QUESTIONS[name])
    kind, pixels = (('video', 'pixel_values_videos') if name == 'video'
                    else ('image', 'pixel_values'))
    features = getattr(reference_reasoner.model, f'get_{kind}_features')(
        wanted[pixels], wanted[f'{kind}_grid_thw']).pooler_output
    assert torch.allclose(tokens, torch.cat(list(features)), atol=1e-4)
    assert tokens.std() > 0.1           # not a comparison of zeros


def test_picture_is_encoded_alike_alone_and_among_others(tiny):
    together, prompt = encode(tiny, QUESTIONS['three pictures'])
    alone = [tiny.vision(patches(tiny, span), [span.grid]) for span in prompt.spans]
    assert torch.allclose(together, torch.cat(alone), atol=1e-5)
    assert len({span.grid for span in prompt.spans}) == 3


def test_edge_has_the_shapes_of_transformers():
    with torch.device('meta'):
        state = Cosmos3EdgeForConditionalGeneration(Cosmos3EdgeConfig()).state_dict()
    wanted = {name: tuple(value.shape) for name, value in state.items()
              if name.startswith(('model.visual.', 'model.projector.'))}
    headers = open_checkpoint('random:edge').vision.headers
    assert {name: header.shape for name, header in headers.items()} == wanted
    assert len(wanted) == 443


@pytest.mark.parametrize(('part', 'field'), [
    ('vision_config', 'num_hidden_layers'), ('vision_config', 'layer_norm_eps'),
    (None, 'projector_hidden_size')])
def test_missing_size_is_refused(tiny_folder, tmp_path, part, field):
    folder = shutil.copytree(tiny_folder, tmp_path / 'copy')
    config = json.loads((folder / 'config.json').read_text())
    del (config[part] if part else config)[field]
    (folder / 'config.json').write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=f'config.json: missing {field}'):
        open_checkpoint(str(folder))


@pytest.mark.parametrize('change', ['drop', 'reshape'])
def test_wrong_tensor_is_refused_before_loading(tiny_folder, tmp_path, change):
    folder = shutil.copytree(tiny_folder, tmp_path / 'copy')
    path, name = folder / 'vision_encoder/model.safetensors', 'model.projector.linear_fc2.weight'
    tensors = load_file(path)
    if change == 'drop':
        del tensors[name]
    else:
        tensors[name] = tensors[name][:, :8].contiguous()
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=f'vision_encoder: .*{name}'):
        open_checkpoint(str(folder))


def test_vision_encoder_is_shared(tiny, tiny_folder):
    other = load(str(tiny_folder), share_with=[tiny])
    mine, others = (list(model.vision.parameters()) for model in (tiny, other))
    assert mine and [p.data_ptr() for p in mine] == [p.data_ptr() for p in others]


def test_policy_checkpoint_has_no_vision_encoder(tiny_droid_folder, tiny):
    assert load(str(tiny_droid_folder), share_with=[tiny]).vision is None
