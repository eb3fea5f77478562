# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint is said to hold and to add."""
from cosmos3_ros.model.inspection import inspect


def table(text):
    """Tensors and shared tensors of each part."""
    rows = [line.rsplit(maxsplit=6) for line in text.splitlines()[2:-1]]
    return {name.strip(): (int(tensors), int(shared)) for name, tensors, *_, shared in rows}


def test_answering_adds_the_vision_encoder_alone_to_what_is_shared(tiny_folder, tiny_droid_folder):
    parts = table(inspect(str(tiny_folder), str(tiny_droid_folder)))
    assert parts['understanding (UND)'] == (21, 21)
    assert parts['VAE'] == (196, 196)
    assert parts['vision encoder'] == (43, 0)
    assert parts['generation (GEN)'][1] == 0


def test_vision_encoder_of_the_same_checkpoint_is_shared(tiny_folder):
    assert table(inspect(str(tiny_folder), str(tiny_folder)))['vision encoder'] == (43, 43)


def test_policy_has_no_vision_encoder(tiny_droid_folder):
    assert 'vision encoder' not in table(inspect(str(tiny_droid_folder)))
