# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""All three tasks at once, on a CPU and for a moment: every figure is there, none is asserted."""
import json

from cosmos3_ros.cli import main


def test_mixed_reports_the_policy_the_others_and_what_the_device_did(tmp_path):
    figures, trace = tmp_path / 'mixed.json', tmp_path / 'trace.json'
    assert main(['bench', 'mixed', '--checkpoint', 'random:tiny', '--policy-checkpoint',
                 'random:tiny-droid', '--streams', '2', '--size', '32x32', '--seconds', '1',
                 '--device', 'cpu', '--json', str(figures), '--trace', str(trace)]) == 0
    found = {row['metric']: row['value'] for row in json.loads(figures.read_text())['rows']}
    for phase in ('alone', 'loaded'):
        assert sum(found[f'{phase}_{end}'] for end in ('chunks', 'missed', 'refused')) == 3
    for progress in ('frames_per_s', 'tok_per_s_total', 'world_model_device', 'reasoner_device'):
        assert found[progress] > 0
    tasks = {event['cat'] for event in json.loads(trace.read_text())['traceEvents']
             if event['ph'] == 'X'}
    assert {'policy', 'world_model', 'reasoner', 'load'} <= tasks
