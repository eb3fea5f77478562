# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Boxes and points in answers."""
import numpy as np
import pytest

from cosmos3_ros.tasks.grounding import Region, draw_regions, find_regions


def found(text, width=640, height=480):
    return [(region.label, region.normalized) for region in find_regions(text, width, height)]


def test_box_is_in_pixels_of_the_source_picture():
    box, = find_regions('[{"bbox_2d": [250, 500, 1000, 750], "label": "cup"}]', 640, 480)
    assert box == Region('cup', (250.0, 500.0, 1000.0, 750.0), (160.0, 240.0, 640.0, 360.0))
    assert box.is_box


def test_point_is_in_pixels_of_the_source_picture():
    point, = find_regions('{"point_2d": [0, 1000], "label": "corner"}', 200, 100)
    assert point == Region('corner', (0.0, 1000.0), (0.0, 100.0))
    assert not point.is_box


@pytest.mark.parametrize(('text', 'wanted'), [
    ('', []),
    ('There is nothing.', []),
    ('[]', []),
    ('[100, 200, 300, 400]', [('', (100, 200, 300, 400))]),
    ('[100, 200]', [('', (100, 200))]),
    ('[[1, 2], [3, 4]]', [('', (1, 2)), ('', (3, 4))]),
    ('The cup is at [1, 2, 3, 4] and the pen at [5, 6].', [('', (1, 2, 3, 4)), ('', (5, 6))]),
    ('```json\n[{"bbox_2d": [1, 2, 3, 4], "label": "cup"}]\n```',
     [('cup', (1, 2, 3, 4))]),
    ('Here:\n```\n{"point_2d": [7.5, 8], "label": "a \\"b\\" [c]"}\n``` Done [ok].',
     [('a "b" [c]', (7.5, 8))]),
    ('{"objects": [{"bbox": [1, 2, 3, 4], "name": "a"}, {"point": [5, 6], "label": "b"}]}',
     [('a', (1, 2, 3, 4)), ('b', (5, 6))]),
    ('[{"label": "way", "points": [[1, 2], [3, 4]]}]', [('way', (1, 2)), ('way', (3, 4))]),
    ('[{"bbox_2d": [30, 40, 10, 20], "label": "turned"}]', [('turned', (10, 20, 30, 40))]),
    # cut off by max_tokens: what is whole still counts
    ('[{"bbox_2d": [1, 2, 3, 4], "label": "cup"}, {"bbox_2d": [5, 6, 7,',
     [('cup', (1, 2, 3, 4))]),
    # a number beyond a float
    (f'[{"9" * 400}, 3] or [1, 2]', [('', (1, 2))]),
    # half a character, which no message can hold
    ('{"point_2d": [1, 2], "label": "half \\ud83d"}', [('half ?', (1, 2))]),
    # no regions
    ('[1, 2, 3]', []),
    ('[1, 2, 3, 1200]', []),
    ('[-5, 20]', []),
    ('[true, false]', []),
    ('["a", "b"]', []),
    ('[NaN, 3]', []),
    ('[Infinity, 3]', []),
    ('{"bbox_2d": null, "label": 3}', []),
    ('[' * 3000, []),
])
def test_answers_are_read_tolerantly(text, wanted):
    assert found(text) == wanted


def test_drawing_leaves_the_picture_and_marks_the_copy():
    picture = np.full((120, 160, 3), 128, np.uint8)
    regions = find_regions('[{"bbox_2d": [250, 250, 750, 750]}, [100, 900]]', 160, 120)
    drawn = draw_regions(picture, regions)
    assert (picture == 128).all() and drawn.shape == picture.shape and drawn.dtype == np.uint8
    changed = (drawn != picture).any(-1)
    assert changed[30, 40:121].all() and changed[90, 40:121].all()      # the box's edges
    assert changed[30:91, 40].all() and changed[30:91, 120].all()
    assert not changed[35:86, 45:116].any()                             # not its inside
    assert changed[108, 16]                                             # the point
    assert not changed[:25].any()


def test_label_stays_in_the_picture():
    picture = np.zeros((100, 200, 3), np.uint8)
    for corner in ('[0, 0, 10, 10]', '[990, 0, 1000, 10]', '[990, 990, 1000, 1000]'):
        bare = draw_regions(picture, find_regions(f'{{"bbox_2d": {corner}}}', 200, 100))
        named = draw_regions(picture, find_regions(
            f'{{"bbox_2d": {corner}, "label": "cup"}}', 200, 100))
        written = (bare != named).any(-1)
        whole = draw_regions(np.zeros((300, 600, 3), np.uint8), find_regions(
            '{"bbox_2d": [500, 500, 510, 510], "label": "cup"}', 600, 300))
        assert written.sum() > 0.9 * 10 * 20 and whole.any()
