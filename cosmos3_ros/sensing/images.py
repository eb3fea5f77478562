# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""RGB arrays from picture messages, with OpenCV and Pillow but without cv_bridge.

Only a message's fields are looked at, so that messages of rclpy and of rosbags both do.
Encodings: sensor_msgs/image_encodings.hpp. Compressed formats: compressed_image_transport.
"""

import io
import re

import cv2
import numpy as np
from PIL import Image as PillowImage

# encoding: (bytes a pixel, OpenCV conversion to RGB). Generic 8UC3 and 8UC4 are in OpenCV's order.
_INTERLEAVED = {
    'rgb8': (3, None),
    'bgr8': (3, cv2.COLOR_BGR2RGB),
    '8UC3': (3, cv2.COLOR_BGR2RGB),
    'rgba8': (4, cv2.COLOR_RGBA2RGB),
    'bgra8': (4, cv2.COLOR_BGRA2RGB),
    '8UC4': (4, cv2.COLOR_BGRA2RGB),
    'mono8': (1, cv2.COLOR_GRAY2RGB),
    '8UC1': (1, cv2.COLOR_GRAY2RGB),
    'yuyv': (2, cv2.COLOR_YUV2RGB_YUYV),
    'yuv422_yuy2': (2, cv2.COLOR_YUV2RGB_YUYV),
    'uyvy': (2, cv2.COLOR_YUV2RGB_UYVY),
    'yuv422': (2, cv2.COLOR_YUV2RGB_UYVY),
    'bayer_rggb8': (1, cv2.COLOR_BayerRGGB2RGB),
    'bayer_bggr8': (1, cv2.COLOR_BayerBGGR2RGB),
    'bayer_gbrg8': (1, cv2.COLOR_BayerGBRG2RGB),
    'bayer_grbg8': (1, cv2.COLOR_BayerGRBG2RGB),
}
_YUV420 = {'nv12': cv2.COLOR_YUV2RGB_NV12, 'nv21': cv2.COLOR_YUV2RGB_NV21}
_GREY = ('mono8', '8UC1')
ENCODINGS = (*_INTERLEAVED, *_YUV420, 'nv24')

# 16-bit, signed, 32-bit and floating-point encodings: depth, thermal or raw sensor values.
_DEEP = re.compile(r'(mono|rgba?|bgra?|bayer_[rgb]{4})16|8SC\d*|(16|32|64)[USF]C\d*')
# BT.601, limited range: [R, G, B] of [Y, U, V, 1], with the offsets 16 and 128 folded in.
_Y, _RV, _GU, _GV, _BU = 255 / 219, 1.5960, -0.3918, -0.8130, 2.0172
_BT601 = np.array([
    [_Y, 0, _RV, -16 * _Y - 128 * _RV],
    [_Y, _GU, _GV, -16 * _Y - 128 * (_GU + _GV)],
    [_Y, _BU, 0, -16 * _Y - 128 * _BU],
])
_MAX_PIXELS = 1 << 26  # 8192 x 8192: above any robot's camera, 200 MB when decoded


class ImageError(ValueError):
    """A picture message that cannot be turned into RGB, and why."""


def to_rgb(message) -> np.ndarray:
    """Turn a sensor_msgs Image or CompressedImage into uint8 [H, W, 3] RGB that owns its memory.

    Any object with the fields of one of the two will do. Grey pictures get three equal channels,
    alpha is dropped, YUV is BT.601 of limited range, an EXIF rotation is ignored (as drivers and
    calibrations do). is_bigendian has no meaning for encodings of 8 bits and is ignored.
    A JPEG whose loss of data the camera hid behind a proper end marker cannot be told from a
    whole one. Raises ImageError.
    """
    try:
        if hasattr(message, 'encoding'):
            return _raw_to_rgb(message)
        if hasattr(message, 'format'):
            return _compressed_to_rgb(message)
    except cv2.error as error:
        raise ImageError(f'OpenCV refused the picture: {error}') from error
    raise ImageError(f'{type(message).__name__} is neither an Image nor a CompressedImage')


def _raw_to_rgb(message) -> np.ndarray:
    encoding, height, width = message.encoding, message.height, message.width
    _check_encoding(encoding)
    if height == 0 or width == 0:
        raise ImageError(f'{encoding} picture has size {width}x{height}, wanted at least 1x1')
    if encoding in _INTERLEAVED:
        pixel_bytes, code = _INTERLEAVED[encoding]
        rows = _rows(message, pixel_bytes, height)[:, :width * pixel_bytes]
        return _convert(rows, encoding, code)
    if encoding == 'nv24':
        return _nv24_to_rgb(_rows(message, 1, 3 * height), height, width)
    if height % 2 or width % 2:
        raise ImageError(f'{encoding} picture has size {width}x{height}, wanted even sizes')
    return cv2.cvtColor(_rows(message, 1, height * 3 // 2)[:, :width], _YUV420[encoding])


def _check_encoding(encoding: str) -> None:
    if _DEEP.fullmatch(encoding):
        raise ImageError(f'encoding {encoding} is a depth or 16-bit picture, not 8-bit colour: it '
                         'is not cut down to 8 bits. Subscribe to the colour topic of the camera')
    if encoding not in ENCODINGS:
        raise ImageError(f'encoding {encoding!r} is unknown; supported: {", ".join(ENCODINGS)}')


def _rows(message, pixel_bytes: int, rows: int) -> np.ndarray:
    """View a message's data as uint8 [rows, step], once its step and size are found to agree."""
    tight = message.width * pixel_bytes
    step = message.step or tight
    what = f'{message.width}x{message.height} {message.encoding} picture'
    if step < tight:
        raise ImageError(f'{what} has step {step}, wanted at least {tight}')
    found = len(message.data)
    if found != step * rows:
        raise ImageError(f'{what} has {found} bytes of data, wanted {step * rows} '
                         f'(step {step} x {rows} rows): the driver fills size or step wrongly')
    return np.frombuffer(message.data, np.uint8).reshape(rows, step)


def _convert(rows: np.ndarray, encoding: str, code: int | None) -> np.ndarray:
    """Convert uint8 [H, W * bytes] of an interleaved encoding to RGB."""
    height, width = rows.shape[0], rows.shape[1] // _INTERLEAVED[encoding][0]
    if encoding.startswith('bayer') and min(height, width) < 3:
        raise ImageError(f'{encoding} picture has size {width}x{height}, wanted at least 3x3')
    if code in (cv2.COLOR_YUV2RGB_YUYV, cv2.COLOR_YUV2RGB_UYVY) and width % 2:
        raise ImageError(f'{encoding} picture has width {width}, wanted an even width')
    pixels = rows.reshape(height, width, -1)
    if code is None:
        return pixels.copy()
    return cv2.cvtColor(pixels, code)


def _nv24_to_rgb(rows: np.ndarray, height: int, width: int) -> np.ndarray:
    # Chroma is of full size: its rows, padding included, are twice as long as those of luma.
    chroma = rows[height:].reshape(height, -1)[:, :2 * width].reshape(height, width, 2)
    return cv2.transform(cv2.merge([rows[:height, :width], chroma]), _BT601)


def _compressed_to_rgb(message) -> np.ndarray:
    source = message.format.partition(';')[0].strip()
    if 'compressedDepth' in message.format:
        raise ImageError(f'format {message.format!r} is a depth picture, wanted colour: subscribe '
                         'to the colour topic of the camera')
    data = np.frombuffer(message.data, np.uint8) if len(message.data) else np.empty(0, np.uint8)
    _check_file(data.tobytes(), message.format)
    picture = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)  # no EXIF rotation, and the true channels
    if picture is None:
        raise ImageError(f'picture of format {message.format!r}, {data.size} bytes, is truncated '
                         'or damaged')
    if picture.dtype != np.uint8:
        raise ImageError(f'picture of format {message.format!r} holds {picture.dtype}, wanted '
                         'uint8: it is not cut down to 8 bits')
    if picture.ndim == 2:
        return _one_channel_to_rgb(picture, source, message.format)
    if picture.shape[2] == 4:
        return cv2.cvtColor(picture, cv2.COLOR_BGRA2RGB)
    if 'compressed rgb' in message.format:  # the transport's word for a file with R and B swapped
        return picture
    return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)


def _one_channel_to_rgb(picture: np.ndarray, source: str, format: str) -> np.ndarray:
    if _DEEP.fullmatch(source):
        _check_encoding(source)
    if source.startswith('bayer') and 'jpeg' not in format and source in _INTERLEAVED:
        return _convert(picture, source, _INTERLEAVED[source][1])  # a lossless mosaic
    if source in ENCODINGS and source not in _GREY:
        raise ImageError(f'picture of format {format!r} has one channel though its source is '
                         f'{source}: the camera driver lost the colour when it compressed. Let '
                         'the driver publish rgb8 or bgr8, or subscribe to the raw topic')
    return cv2.cvtColor(picture, cv2.COLOR_GRAY2RGB)


def _check_file(data: bytes, format: str) -> None:
    """Refuse, before memory is taken, what is no whole JPEG, PNG or WebP of a sensible size."""
    try:
        with PillowImage.open(io.BytesIO(data), formats=('JPEG', 'PNG', 'WEBP')) as header:
            kind, (width, height) = header.format, header.size
    except (PillowImage.DecompressionBombError, PillowImage.DecompressionBombWarning) as error:
        raise ImageError(f'picture of format {format!r} is too large: {error}') from error
    except (OSError, ValueError, SyntaxError) as error:
        raise ImageError(f'picture of format {format!r}, {len(data)} bytes beginning '
                         f'{data[:4].hex(" ") or "nowhere"}, is not a JPEG, PNG or WebP file, or '
                         'is cut short') from error
    if width * height > _MAX_PIXELS:
        raise ImageError(f'picture of format {format!r} has size {width}x{height}, wanted at most '
                         f'{_MAX_PIXELS} pixels')
    # Some OpenCV releases decode a JPEG without its end to a picture that goes on in grey.
    if kind in ('JPEG', 'MPO') and data.rfind(b'\xff\xd9') < data.rfind(b'\xff\xda'):
        raise ImageError(f'JPEG of {len(data)} bytes, {width}x{height}, is truncated: it has no '
                         'end marker. Look for lost packets between camera and driver')
