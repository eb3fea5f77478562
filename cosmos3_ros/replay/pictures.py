# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures small enough for a report."""
from __future__ import annotations

import base64

import cv2
import numpy as np

WIDEST = 320            # pixels


def jpeg(picture: np.ndarray) -> str:
    """Base64 of a JPEG of uint8 [H, W, 3] RGB, at most WIDEST wide."""
    scale = min(1.0, WIDEST / picture.shape[1])
    small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    _, data = cv2.imencode('.jpg', cv2.cvtColor(small, cv2.COLOR_RGB2BGR),
                           [cv2.IMWRITE_JPEG_QUALITY, 85])
    return base64.b64encode(data).decode()
