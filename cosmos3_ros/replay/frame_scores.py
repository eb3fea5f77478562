# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""How far imagined frames are from recorded ones. Pictures are uint8 [H, W, 3] RGB."""
from __future__ import annotations

import cv2
import numpy as np

SHARPEST = 99.0         # dB; the PSNR of equal frames, which has no bound


def score(imagined: list[np.ndarray], recorded: list[np.ndarray], windows: np.ndarray) -> dict:
    """Figures by frame of the horizon; `frozen_psnr` is that of a video which stays at frame 0.

    `drift`: mean distance of the channels' means, 0 to 255. `seam`: see `seam`.
    """
    pairs = list(zip(imagined, recorded))
    return {'psnr': [psnr(a, b) for a, b in pairs], 'ssim': [ssim(a, b) for a, b in pairs],
            'drift': [float(np.abs(a.mean((0, 1)) - b.mean((0, 1))).mean()) for a, b in pairs],
            'frozen_psnr': [psnr(recorded[0], b) for b in recorded],
            'seam': seam(imagined, windows)}


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """Peak signal to noise, dB; SHARPEST for equal pictures."""
    error = float(np.mean((a.astype(np.float64) - b) ** 2))
    return SHARPEST if error == 0 else min(SHARPEST, 10 * np.log10(255 ** 2 / error))


def ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Structural similarity of the luma (Wang et al. 2004): Gaussian window, sigma 1.5, 11 px."""
    x, y = (cv2.cvtColor(one, cv2.COLOR_RGB2GRAY).astype(np.float64) for one in (a, b))

    def blur(values):
        return cv2.GaussianBlur(values, (11, 11), 1.5)[5:-5, 5:-5]
    mean_x, mean_y = blur(x), blur(y)
    var_x, var_y = blur(x * x) - mean_x ** 2, blur(y * y) - mean_y ** 2
    both = blur(x * y) - mean_x * mean_y
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    top = (2 * mean_x * mean_y + c1) * (2 * both + c2)
    return float(np.mean(top / ((mean_x ** 2 + mean_y ** 2 + c1) * (var_x + var_y + c2))))


def seam(frames: list[np.ndarray], windows: np.ndarray) -> float | None:
    """Mean change from frame to frame at window borders over that elsewhere; 1 shows no seam.

    None without a border, or where nothing changes elsewhere.
    """
    changes = np.array([np.abs(b.astype(np.int16) - a).mean() for a, b in zip(frames, frames[1:])])
    border = np.diff(windows) != 0
    if not border.any() or border.all() or changes[~border].mean() == 0:
        return None
    return float(changes[border].mean() / changes[~border].mean())
