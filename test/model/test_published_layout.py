# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A written checkpoint against the libraries that define the layout, and its published counts."""
from math import prod

from diffusers import AutoencoderKLWan, Cosmos3OmniPipeline, Cosmos3OmniTransformer
import pytest
import torch
from transformers import AutoProcessor, Cosmos3EdgeForConditionalGeneration

from cosmos3_ros.model.checkpoint import open_checkpoint
from cosmos3_ros.model.config import CheckpointError
from cosmos3_ros.model.write_checkpoint import write_tiny

TIME_EMBEDDER = {f'time_embedder.linear_{i}.{kind}' for i in (1, 2) for kind in ('weight', 'bias')}


def assert_nothing_missing(loading):
    assert not any(loading[kind] for kind in ('missing_keys', 'unexpected_keys', 'mismatched_keys'))


def assert_same_weights(module, tensors):
    state = module.state_dict()
    assert set(state) == set(tensors.headers)
    assert all(torch.equal(state[name], tensors.read(name)) for name in state)


@pytest.mark.parametrize('variant', ['tiny', 'tiny-droid'])
def test_folder_holds_the_random_checkpoint_bit_for_bit(variant, request):
    folder = request.getfixturevalue(variant.replace('-', '_') + '_folder')
    written, drawn = open_checkpoint(str(folder)), open_checkpoint(f'random:{variant}')
    assert written.config == drawn.config
    for ours, wanted in ((written.transformer, drawn.transformer), (written.vae, drawn.vae)):
        assert dict(ours.headers) == dict(wanted.headers)
        for name in wanted.headers:
            assert torch.equal(ours.read(name), wanted.read(name)), name


@pytest.mark.parametrize('variant', ['tiny', 'tiny-droid'])
def test_diffusers_loads_the_folder(variant, request):
    folder = request.getfixturevalue(variant.replace('-', '_') + '_folder')
    checkpoint = open_checkpoint(str(folder))
    for kind, name in ((Cosmos3OmniTransformer, 'transformer'), (AutoencoderKLWan, 'vae')):
        module, loading = kind.from_pretrained(folder / name, output_loading_info=True)
        assert_nothing_missing(loading)
        assert_same_weights(module, getattr(checkpoint, name))
    pipeline = Cosmos3OmniPipeline.from_pretrained(folder)
    assert pipeline.config.use_native_flow_schedule is True
    assert pipeline.config.default_use_system_prompt is False


def test_transformers_loads_the_folder(tiny_folder):
    model, loading = Cosmos3EdgeForConditionalGeneration.from_pretrained(
        tiny_folder, output_loading_info=True)
    assert_nothing_missing(loading)
    ours, state = open_checkpoint(str(tiny_folder)), model.state_dict()
    understanding = [name for name in ours.transformer.headers if '.to_q.' in name]
    assert len(understanding) == 2
    for name in understanding:
        [theirs] = [value for key, value in state.items()
                    if key.endswith(name.replace('to_q', 'q_proj')) and 'language' in key]
        assert torch.equal(theirs, ours.transformer.read(name))
    assert torch.equal(state['lm_head.weight'], ours.transformer.read('lm_head.weight'))

    processor = AutoProcessor.from_pretrained(tiny_folder)
    assert processor.tokenizer.eos_token_id == 11
    assert processor.tokenizer.convert_tokens_to_ids('<|image_pad|>') == 19


def test_policy_variant_has_no_vision_encoder(tiny_folder, tiny_droid_folder):
    assert len(open_checkpoint(str(tiny_folder)).vision.headers) == 16 * 2 + 11
    assert open_checkpoint(str(tiny_droid_folder)).vision is None
    assert not (tiny_droid_folder / 'vision_encoder').exists()


def test_edge_has_the_published_counts_and_types():
    checkpoint = open_checkpoint('random:edge')
    headers = checkpoint.transformer.headers
    assert len(headers) == 19 * 28 + 17 == 549
    assert len(checkpoint.vae.headers) == 196
    assert sum(prod(h.shape) for h in headers.values()) == pytest.approx(3.37e9, rel=0.01)
    fp32 = {name for name, header in headers.items() if header.dtype == torch.float32}
    assert fp32 == TIME_EMBEDDER
    assert {h.dtype for name, h in headers.items() if name not in fp32} == {torch.bfloat16}


def test_edge_has_the_shapes_of_diffusers(monkeypatch):
    checkpoint = open_checkpoint('random:edge')
    with torch.device('meta'):
        reference = Cosmos3OmniTransformer(
            hidden_size=2048, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
            head_dim=128, intermediate_size=9216, hidden_act='relu2', vocab_size=131072,
            qk_norm_for_text=False, use_und_k_norm_for_gen=True, action_gen=True, action_dim=64)
        vae = AutoencoderKLWan(
            base_dim=160, decoder_base_dim=256, z_dim=48, dim_mult=[1, 2, 4, 4], num_res_blocks=2,
            temperal_downsample=[False, True, True], is_residual=True, in_channels=12,
            out_channels=12, patch_size=2, scale_factor_spatial=16)
    for module, ours in ((reference, checkpoint.transformer), (vae, checkpoint.vae)):
        wanted = {name: tuple(value.shape) for name, value in module.state_dict().items()}
        assert {name: tuple(header.shape) for name, header in ours.headers.items()} == wanted


def test_full_folder_is_not_written_over(tmp_path):
    (tmp_path / 'notes.txt').write_text('keep')
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        write_tiny(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ['notes.txt']


def test_only_tiny_variants_are_written(tmp_path):
    with pytest.raises(CheckpointError, match='edge'):
        write_tiny(tmp_path / 'edge', 'edge')
