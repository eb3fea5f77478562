# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Picture messages from RGB arrays."""

import array

import cv2
import numpy as np
from sensor_msgs.msg import CompressedImage, Image

from cosmos3_ros.sensing.images import ImageError

_JPEG_QUALITY = 95  # compressed_image_transport's default


def from_rgb(rgb: np.ndarray, header, encoding: str = 'rgb8'):
    """Build a sensor_msgs/Image from uint8 [H, W, 3] RGB; encoding is rgb8 or bgr8.

    The header is taken as it is: its stamp is that of the input. Raises ImageError.
    """
    _check_rgb(rgb)
    if encoding not in ('rgb8', 'bgr8'):
        raise ImageError(f'encoding {encoding!r} cannot be published, only rgb8 and bgr8')
    # Written in place into the one type that message setters take without a look at every byte.
    data = array.array('B', [0]) * rgb.size
    pixels = np.frombuffer(data, np.uint8).reshape(rgb.shape)
    if encoding == 'bgr8':
        cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR, dst=pixels)
    else:
        pixels[:] = rgb
    height, width = rgb.shape[:2]
    message = Image(header=header, height=height, width=width, encoding=encoding, step=3 * width)
    message.data = data  # the constructor would copy it byte by byte
    return message


def compress(rgb: np.ndarray, header, format: str = 'jpeg'):
    """Build a sensor_msgs/CompressedImage from uint8 [H, W, 3] RGB; format is jpeg or png.

    The format string is the one that compressed_image_transport writes. Raises ImageError.
    """
    _check_rgb(rgb)
    if format not in ('jpeg', 'png'):
        raise ImageError(f'format {format!r} cannot be published, only jpeg and png')
    options = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY] if format == 'jpeg' else []
    _, encoded = cv2.imencode(f'.{format}', cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), options)
    message = CompressedImage(header=header, format=f'rgb8; {format} compressed bgr8')
    message.data = array.array('B', encoded.tobytes())
    return message


def _check_rgb(rgb: np.ndarray) -> None:
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.size == 0:
        raise ImageError(f'picture is {rgb.dtype} {list(rgb.shape)}, wanted uint8 [H, W, 3]')
