# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Raw pictures: each encoding is built here from its definition."""

import array
from types import SimpleNamespace

import numpy as np
import pytest
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from cosmos3_ros.ros.images import compress, from_rgb
from cosmos3_ros.sensing.images import ENCODINGS, ImageError, to_rgb

# Eight colour bars of the BT.601 test picture, then a dark and a light colour.
BARS = np.array([
    [255, 255, 255], [255, 255, 0], [0, 255, 255], [0, 255, 0],
    [255, 0, 255], [255, 0, 0], [0, 0, 255], [0, 0, 0], [30, 60, 20], [200, 180, 220],
], np.uint8)


def bars(height=6, bar_width=4):
    return np.tile(np.repeat(BARS, bar_width, axis=0), (height, 1, 1))


def noise(height=6, width=10):
    return np.random.default_rng(3).integers(0, 256, (height, width, 3), dtype=np.uint8)


def ycbcr(rgb):
    """ITU-R BT.601 with 8-bit limited range: Y 16..235, Cb and Cr 16..240 about 128."""
    red, green, blue = np.moveaxis(rgb.astype(float) / 255, -1, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    cb, cr = (blue - luma) / 1.772, (red - luma) / 1.402
    return tuple(np.rint(plane).astype(np.uint8)
                 for plane in (16 + 219 * luma, 128 + 224 * cb, 128 + 224 * cr))


def mosaic(rgb, pattern):
    """Keep of each pixel the one channel that a 2x2 filter (rows first) lets through."""
    out = np.empty(rgb.shape[:2], np.uint8)
    for index, letter in enumerate(pattern):
        row, column = divmod(index, 2)
        out[row::2, column::2] = rgb[row::2, column::2, 'rgb'.index(letter)]
    return out


def packed_422(rgb, order):
    planes = dict(zip('yuv', ycbcr(rgb)))
    out = np.empty((rgb.shape[0], rgb.shape[1] // 2, 4), np.uint8)
    seen_luma = 0
    for place, letter in enumerate(order):
        if letter == 'y':
            out[..., place] = planes['y'][:, seen_luma::2]
            seen_luma += 1
        else:
            out[..., place] = planes[letter][:, ::2]
    return out.reshape(rgb.shape[0], -1)


def planar(rgb, order, every):
    planes = dict(zip('yuv', ycbcr(rgb)))
    chroma = np.stack([planes[letter][::every, ::every] for letter in order], axis=-1)
    return [planes['y'], chroma.reshape(chroma.shape[0], -1)]


def message(encoding, planes, height, width, step, big_endian=False):
    """Lay planes out with their own row lengths; padding is 0xAA, so that reading it shows."""
    data = array.array('B')
    for plane in planes:
        plane = plane.reshape(plane.shape[0], -1)
        scale = 2 if encoding == 'nv24' and plane.shape[1] == 2 * width else 1
        padded = np.full((plane.shape[0], step * scale or plane.shape[1]), 0xAA, np.uint8)
        padded[:, :plane.shape[1]] = plane
        data.frombytes(padded.tobytes())
    return Image(encoding=encoding, height=height, width=width, step=step,
                 is_bigendian=int(big_endian), data=data)


GREY = np.repeat(noise()[..., :1], 3, axis=2)
NOISE = noise()
OPAQUE = np.full((*NOISE.shape[:2], 1), 77, np.uint8)
# encoding: (planes, picture wanted, bytes in a tight row, error allowed)
CASES = {
    'rgb8': ([NOISE], NOISE, 30, 0),
    'bgr8': ([NOISE[..., ::-1]], NOISE, 30, 0),
    '8UC3': ([NOISE[..., ::-1]], NOISE, 30, 0),
    'rgba8': ([np.dstack([NOISE, OPAQUE])], NOISE, 40, 0),
    'bgra8': ([np.dstack([NOISE[..., ::-1], OPAQUE])], NOISE, 40, 0),
    '8UC4': ([np.dstack([NOISE[..., ::-1], OPAQUE])], NOISE, 40, 0),
    'mono8': ([GREY[..., 0]], GREY, 10, 0),
    '8UC1': ([GREY[..., 0]], GREY, 10, 0),
    'yuyv': ([packed_422(bars(), 'yuyv')], bars(), 80, 2),
    'yuv422_yuy2': ([packed_422(bars(), 'yuyv')], bars(), 80, 2),
    'uyvy': ([packed_422(bars(), 'uyvy')], bars(), 80, 2),
    'yuv422': ([packed_422(bars(), 'uyvy')], bars(), 80, 2),
    'nv12': (planar(bars(), 'uv', 2), bars(), 40, 2),
    'nv21': (planar(bars(), 'vu', 2), bars(), 40, 2),
    'nv24': (planar(bars(), 'uv', 1), bars(), 40, 2),
}
FLAT = np.tile(np.array([200, 90, 20], np.uint8), (6, 8, 1))
for pattern in ('rggb', 'bggr', 'gbrg', 'grbg'):
    CASES[f'bayer_{pattern}8'] = ([mosaic(FLAT, pattern)], FLAT, 8, 0)


def test_every_supported_encoding_has_a_case():
    assert set(CASES) == set(ENCODINGS)


@pytest.mark.parametrize('padding', ['tight', 'zero', 'padded'])
@pytest.mark.parametrize('encoding', CASES)
def test_encoding_decodes_to_its_scene(encoding, padding):
    planes, wanted, tight, tolerance = CASES[encoding]
    step = {'tight': tight, 'zero': 0, 'padded': tight + 14}[padding]
    height, width = wanted.shape[:2]
    rgb = to_rgb(message(encoding, planes, height, width, step))
    assert rgb.dtype == np.uint8 and rgb.shape == wanted.shape and rgb.flags.c_contiguous
    assert np.abs(rgb.astype(int) - wanted).max() <= tolerance


@pytest.mark.parametrize('encoding', CASES)
def test_big_endian_flag_changes_no_8_bit_picture(encoding):
    planes, wanted, tight, _ = CASES[encoding]
    little, big = (to_rgb(message(encoding, planes, *wanted.shape[:2], tight, flag))
                   for flag in (False, True))
    np.testing.assert_array_equal(little, big)


@pytest.mark.parametrize('pattern', ['rggb', 'bggr', 'gbrg', 'grbg'])
def test_bayer_keeps_the_measured_channel_of_each_pixel(pattern):
    # A slanted scene tells a shifted mosaic from a right one. The outermost pixels are invented.
    row, column = np.mgrid[:12, :16]
    scene = np.stack([40 + 9 * column, 20 + 8 * row, 200 - 5 * column - 3 * row], -1)
    scene = scene.astype(np.uint8)
    rgb = to_rgb(message(f'bayer_{pattern}8', [mosaic(scene, pattern)], 12, 16, 16))
    assert np.abs(rgb.astype(int) - scene)[1:-1, 1:-1].max() <= 1


@pytest.mark.parametrize('encoding', ['mono16', 'rgb16', 'bgra16', '16UC1', '16SC1', '32FC1',
                                      '64FC3', '8SC3', 'bayer_rggb16'])
@pytest.mark.parametrize('big_endian', [False, True])
def test_16_bit_and_depth_are_refused(encoding, big_endian):
    picture = Image(encoding=encoding, height=2, width=2, step=4, is_bigendian=int(big_endian),
                    data=array.array('B', bytes(8)))
    with pytest.raises(ImageError, match=f'{encoding} is a depth or 16-bit picture.*colour topic'):
        to_rgb(picture)


def test_unknown_encoding_names_those_supported():
    with pytest.raises(ImageError, match="'h264' is unknown.*rgb8.*yuyv.*bayer_rggb8.*nv12"):
        to_rgb(Image(encoding='h264', height=2, width=2, data=array.array('B', b'0000')))


@pytest.mark.parametrize(('height', 'width', 'step', 'length', 'reason'), [
    (4, 5, 15, 59, 'has 59 bytes of data, wanted 60'),
    (4, 5, 15, 61, 'has 61 bytes of data, wanted 60'),
    (4, 5, 16, 60, 'has 60 bytes of data, wanted 64'),
    (4, 5, 0, 59, 'wanted 60'),
    (4, 5, 14, 56, 'step 14, wanted at least 15'),
    (4, 5, 15, 0, 'has 0 bytes of data, wanted 60'),
    (0, 5, 15, 0, 'size 5x0'),
    (4, 0, 0, 0, 'size 0x4'),
    (2**32 - 1, 2**32 - 1, 0, 60, 'has 60 bytes'),
    (2**32 - 1, 5, 2**32 - 1, 60, 'has 60 bytes'),
])
def test_data_that_does_not_fit_is_refused(height, width, step, length, reason):
    picture = Image(encoding='rgb8', height=height, width=width, step=step,
                    data=array.array('B', bytes(length)))
    with pytest.raises(ImageError, match=reason):
        to_rgb(picture)


@pytest.mark.parametrize(('encoding', 'height', 'width', 'length'), [
    ('yuyv', 2, 3, 12), ('uyvy', 2, 3, 12), ('nv12', 2, 3, 9), ('nv21', 3, 2, 8),
    ('bayer_rggb8', 2, 2, 4),
])
def test_sizes_that_an_encoding_cannot_have_are_refused(encoding, height, width, length):
    with pytest.raises(ImageError, match=f'{encoding} picture has .*wanted'):
        to_rgb(Image(encoding=encoding, height=height, width=width,
                     data=array.array('B', bytes(length))))


def test_result_owns_its_memory():
    picture = from_rgb(NOISE, Header())
    to_rgb(picture)[:] = 0
    np.testing.assert_array_equal(to_rgb(picture), NOISE)


@pytest.mark.parametrize('data', [NOISE.reshape(-1), NOISE.tobytes(), memoryview(NOISE.tobytes())])
def test_messages_of_other_libraries_decode(data):
    foreign = SimpleNamespace(encoding='rgb8', height=6, width=10, step=30, is_bigendian=0,
                              data=data)
    np.testing.assert_array_equal(to_rgb(foreign), NOISE)


def test_another_message_type_is_refused_by_name():
    with pytest.raises(ImageError, match='Header is neither an Image nor a CompressedImage'):
        to_rgb(Header())


@pytest.mark.parametrize('encoding', ['rgb8', 'bgr8'])
def test_published_picture_reads_back_with_its_header(encoding):
    header = Header(frame_id='wrist_optical_frame')
    header.stamp.sec = 17
    picture = from_rgb(NOISE[:, ::-1], header, encoding)  # a view that is not contiguous
    first = NOISE[0, -1] if encoding == 'rgb8' else NOISE[0, -1, ::-1]
    assert list(picture.data[:3]) == list(first)
    assert (picture.height, picture.width, picture.step) == (6, 10, 30)
    assert picture.header == header
    np.testing.assert_array_equal(to_rgb(picture), NOISE[:, ::-1])


@pytest.mark.parametrize('rgb', [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8),
                                 np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8)])
@pytest.mark.parametrize('build', [from_rgb, compress])
def test_only_rgb_bytes_are_published(build, rgb):
    with pytest.raises(ImageError, match=r'wanted uint8 \[H, W, 3\]'):
        build(rgb, Header())


@pytest.mark.parametrize('build', [from_rgb, compress])
def test_unknown_output_is_refused_by_name(build):
    with pytest.raises(ImageError, match="'yuyv' cannot be published, only"):
        build(NOISE, Header(), 'yuyv')
