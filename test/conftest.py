# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Tiny checkpoints that the tests share; nothing is downloaded."""
import os
from pathlib import Path
import sys

import pytest

# Read by torch and huggingface_hub when they are imported, which the tests do later.
os.environ['HF_HUB_OFFLINE'] = '1'
os.environ.setdefault('OMP_NUM_THREADS', '2')
os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')     # spinning threads starve each other
if not Path('/dev/nvidiactl').exists():
    os.environ['TRITON_INTERPRET'] = '1'                # kernels run, slowly, on the CPU
# Test modules are imported by path: this is where they find `diffusers_reference`.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope='session')
def tiny_folder(tmp_path_factory):
    """A tiny checkpoint in the published layout; read only."""
    return _written(tmp_path_factory, 'tiny')


@pytest.fixture(scope='session')
def tiny_droid_folder(tmp_path_factory):
    """The policy variant of `tiny_folder`; read only."""
    return _written(tmp_path_factory, 'tiny-droid')


@pytest.fixture(scope='session')
def tiny(tiny_folder):
    """The tiny checkpoint, loaded from its folder in fp32 on the CPU."""
    from cosmos3_ros.model.checkpoint import load
    return load(str(tiny_folder))


@pytest.fixture(scope='session')
def reference(tiny_folder):
    """The transformer of the tiny checkpoint as diffusers loads it."""
    from diffusers import Cosmos3OmniTransformer
    return Cosmos3OmniTransformer.from_pretrained(tiny_folder / 'transformer').eval()


@pytest.fixture(scope='session')
def reference_reasoner(tiny_folder):
    """The tiny checkpoint as transformers loads it."""
    from transformers import Cosmos3EdgeForConditionalGeneration
    return Cosmos3EdgeForConditionalGeneration.from_pretrained(tiny_folder).eval()


@pytest.fixture(scope='session')
def reference_processor(tiny_folder):
    """The processor of the tiny checkpoint as transformers loads it."""
    from transformers import AutoProcessor
    return AutoProcessor.from_pretrained(tiny_folder)


@pytest.fixture(scope='session')
def golden():
    """Reads a file of reference values by name."""
    import numpy as np
    return lambda name: np.load(Path(__file__).parent / 'data' / 'model' / f'{name}.npz')


def _written(tmp_path_factory, variant):
    from cosmos3_ros.model.write_checkpoint import write_tiny
    folder = tmp_path_factory.mktemp('checkpoints') / variant
    write_tiny(folder, variant)
    return folder


def pytest_addoption(parser):
    """Let a soak take longer, and more processes be killed, than in CI."""
    parser.addoption('--soak', type=float, default=40.0, metavar='S',
                     help='seconds that the soak test takes (default: 40)')
    parser.addoption('--kills', type=int, default=4, metavar='N',
                     help='processes that are killed in mid-work (default: 4)')
