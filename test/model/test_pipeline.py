# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Four guided steps against diffusers' pipeline in its own policy mode.

That mode has no state row, 10 columns and row 0 one frame after the observed one, so it checks
network, sampler, guidance and canvas, not the DROID contract.
"""
from diffusers import Cosmos3OmniPipeline, UniPCMultistepScheduler
from diffusers.pipelines.cosmos.pipeline_cosmos3_omni import CosmosActionCondition
import numpy as np
from PIL import Image
import pytest
import torch

from cosmos3_ros.model.job import finish
from cosmos3_ros.model.positions import Layout
from cosmos3_ros.tasks.canvas import fit_canvas
from cosmos3_ros.tasks.sampler import UniPC, flow_schedule, guide
from diffusers_reference import assert_close

WIDTH, FPS, ROWS = 10, 15.0, 8


def picture():
    blocks = np.random.RandomState(5).randint(0, 256, (20, 30, 3)).astype(np.uint8)
    return blocks.repeat(8, 0).repeat(8, 1)      # 160 x 240 on a canvas of 192 x 320


@pytest.fixture(scope='module')
def played(tiny_folder):
    """Start and end of diffusers' run: its tokens, initial noise, latents and actions."""
    pipe = Cosmos3OmniPipeline.from_pretrained(tiny_folder)
    pipe.scheduler = UniPCMultistepScheduler.from_config(pipe.scheduler.config, flow_shift=5.0)
    pipe.set_progress_bar_config(disable=True)
    record = {}
    prepare, tokenize = pipe.prepare_latents, pipe.tokenize_prompt

    def prepare_and_record(**options):
        prepared = prepare(**options)
        record['video'], record['rows'] = prepared[0].clone(), prepared[2].clone()
        return prepared

    def tokenize_and_record(*arguments, **options):
        record['tokens'] = tokenize(*arguments, **options)
        return record['tokens']

    pipe.prepare_latents, pipe.tokenize_prompt = prepare_and_record, tokenize_and_record
    action = CosmosActionCondition('policy', ROWS, 'droid_lerobot', resolution_tier=256,
                                   image=Image.fromarray(picture()), view_point='concat_view')
    out = pipe('Pick up the banana', fps=FPS, num_inference_steps=4, guidance_scale=3.0,
               action=action, output_type='latent', generator=torch.Generator().manual_seed(11))
    return record | {'latents': out.video[0], 'actions': out.action[0]}


def test_four_guided_steps_equal_the_pipeline(tiny, played):
    network = tiny.transformer
    canvas = fit_canvas(picture(), 256)
    height, width = canvas.latent_size
    layout = Layout(1 + ROWS // 4, height, width, FPS, clean_frames=(0,), rows=ROWS, row_offset=1)

    draw = torch.Generator().manual_seed(11)
    video = torch.randn(1, 16, layout.frames, height, width, generator=draw)[0]
    rows = torch.randn(ROWS, 64, generator=draw)
    frame = tiny.vae.encode_frame(canvas.pixels())[:, :, :height, :width]
    video[:, :1], rows[:, WIDTH:] = frame, 0
    assert_close(video, played['video'][0], 1e-5)
    assert torch.equal(rows, played['rows'])

    sigmas, timesteps = flow_schedule(4, 5.0)
    solvers = UniPC(sigmas), UniPC(sigmas)
    for timestep in timesteps:
        with tiny.branches(played['tokens'], layout) as branches:
            pairs = finish(network.velocity(branches, video, timestep, rows, 8))
        v_video, v_rows = (guide(both, 3.0) for both in zip(*pairs))
        v_rows[:, WIDTH:] = 0
        video, rows = solvers[0].step(v_video, video), solvers[1].step(v_rows, rows)

    assert_close(video, played['latents'], 1e-4)
    assert_close(rows[:, :WIDTH], played['actions'], 1e-4)
    assert_close(video[:, :1], frame, 1e-6)


def test_prompts_are_tokenized_as_by_the_pipeline(tiny, played):
    prompt = (
        '{"cinematography": {"framing": "This video contains concatenated views from multiple '
        'camera perspectives."}, "actions": [{"time": "0:00-0:01", "description": "Pick up the '
        'banana."}], "duration": "0s", "fps": 15.0, "resolution": {"H": 192, "W": 320}, '
        '"aspect_ratio": "16,9"}')
    assert (tiny.tokenizer.encode(prompt), tiny.tokenizer.encode('')) == played['tokens']
