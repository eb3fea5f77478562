# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Boxes and points that an answer names, in pixels of the picture, and drawn on it.

The model writes JSON with coordinates normalised to 0..1000, x before y:
`[{"bbox_2d": [x_min, y_min, x_max, y_max], "label": "cup"}, {"point_2d": [x, y]}]`, one such
object, or plain lists of two or four numbers; often between text or in a code fence.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
import json
from typing import Any

import cv2
import numpy as np

SCALE = 1000.0
_BOXES = ('bbox_2d', 'box_2d', 'bbox', 'box')
_POINTS = ('point_2d', 'point', 'points_2d', 'points')
_LABELS = ('label', 'name', 'text')
_COLOURS = ((230, 60, 60), (60, 160, 230), (70, 190, 90), (240, 180, 40), (170, 90, 210))
_LIGHT, _DARK = (255, 255, 255), (0, 0, 0)


@dataclass(frozen=True)
class Region:
    """A box (x_min, y_min, x_max, y_max) or a point (x, y).

    `normalized`: 0..1000 as the model wrote it, a box's corners in order. `pixels`: of the source
    picture, origin at its top left corner, 0..width and 0..height.
    """

    label: str
    normalized: tuple[float, ...]
    pixels: tuple[float, ...]

    @property
    def is_box(self) -> bool:
        return len(self.normalized) == 4


def find_regions(text: str, width: int, height: int) -> list[Region]:
    """Regions named in an answer, in its order; what is no region is passed over."""
    found = (pair for value in _json_values(text) for pair in _walk(value))
    return [_region(label, numbers, width, height) for label, numbers in found]


def draw_regions(picture: np.ndarray, regions: Iterable[Region]) -> np.ndarray:
    """A copy of a picture (uint8 [H, W, 3] RGB) with boxes, points and labels on it."""
    canvas = np.ascontiguousarray(picture).copy()
    size = max(1, round(max(canvas.shape[:2]) / 400))
    for i, region in enumerate(regions):
        colour = _COLOURS[i % len(_COLOURS)]
        corners = np.round(region.pixels).astype(int).reshape(-1, 2)
        if region.is_box:
            cv2.rectangle(canvas, *map(tuple, corners.tolist()), colour, size)
        else:
            cv2.circle(canvas, tuple(corners[0].tolist()), 3 * size, _LIGHT, cv2.FILLED)
            cv2.circle(canvas, tuple(corners[0].tolist()), 2 * size, colour, cv2.FILLED)
        if region.label:
            _write(canvas, region.label, corners[0], colour, size)
    return canvas


def _write(canvas: np.ndarray, label: str, at: np.ndarray, colour: tuple[int, int, int],
           size: int) -> None:
    """A label above a place, or as near as fits in the picture."""
    font, scale = cv2.FONT_HERSHEY_SIMPLEX, 0.4 * size
    (width, height), below = cv2.getTextSize(label, font, scale, size)
    x = int(max(0, min(at[0], canvas.shape[1] - width)))
    y = int(max(height + below, at[1] - 2 * size))
    cv2.rectangle(canvas, (x, y - height - below), (x + width, y + below), colour, cv2.FILLED)
    dark = sum(colour) > 450
    cv2.putText(canvas, label, (x, y), font, scale, _DARK if dark else _LIGHT, size, cv2.LINE_AA)


def _json_values(text: str) -> Iterator[Any]:
    """Every JSON list and object in a text, the outermost ones that can be read."""
    decoder, place = json.JSONDecoder(), 0
    while place < len(text):
        if text[place] in '[{':
            try:
                value, place = decoder.raw_decode(text, place)
                yield value
                continue
            except (ValueError, RecursionError):
                pass            # cut off or not JSON: what lies inside may still be read
        place += 1


def _walk(value: Any, label: str = '') -> Iterator[tuple[str, tuple[float, ...]]]:
    """Labels and numbers of the regions in a JSON value."""
    if isinstance(value, dict):
        label = next((value[name] for name in _LABELS if isinstance(value.get(name), str)), label)
        named = [name for name in (*_BOXES, *_POINTS) if name in value]
        for inner in ([value[name] for name in named] if named else value.values()):
            yield from _walk(inner, label)
    elif (numbers := _numbers(value)) is not None:
        yield label, numbers
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, label)


def _numbers(value: Any) -> tuple[float, ...] | None:
    """Two or four numbers within 0..1000 (a box's corners put in order), None for others."""
    if not isinstance(value, list) or len(value) not in (2, 4):
        return None
    if not all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in value):
        return None
    if not all(0 <= x <= SCALE for x in value):
        return None
    x, y = value[0::2], value[1::2]
    corners = [(min(x), min(y)), (max(x), max(y))] if len(value) == 4 else [(x[0], y[0])]
    return tuple(float(number) for corner in corners for number in corner)


def _region(label: str, numbers: tuple[float, ...], width: int, height: int) -> Region:
    pixels = tuple(number / SCALE * (height if i % 2 else width)
                   for i, number in enumerate(numbers))
    label = label.encode(errors='replace').decode()     # half a character ends rclpy's process
    return Region(label, numbers, pixels)
