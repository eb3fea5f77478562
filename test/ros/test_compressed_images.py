# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Compressed pictures, written by Pillow: what is decoded, and what is refused and why."""

import array
import io
import struct
import zlib

import cv2
import numpy as np
from PIL import Image as PillowImage
import pytest
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Header

from cosmos3_ros.ros.images import compress
from cosmos3_ros.sensing.images import ImageError, to_rgb

COLOUR = np.array([200, 90, 20], np.uint8)


def encoded(picture, kind, **options):
    out = io.BytesIO()
    if isinstance(picture, np.ndarray):
        picture = PillowImage.fromarray(picture)
    picture.save(out, kind, **options)
    return out.getvalue()


def compressed(data, format=''):
    return CompressedImage(format=format, data=array.array('B', data))


def mosaic(pattern):
    """Mosaic of a picture that has one colour, 6 x 8."""
    filters = [COLOUR['rgb'.index(letter)] for letter in pattern]
    return np.tile(np.reshape(filters, (2, 2)), (3, 4))


SMOOTH = np.stack(np.meshgrid(np.linspace(20, 220, 64), np.linspace(40, 200, 48)), -1)
SMOOTH = np.dstack([SMOOTH, 240 - SMOOTH[..., 0]]).astype(np.uint8)
FILES = {
    'JPEG': (encoded(SMOOTH, 'JPEG', quality=95, subsampling=0), 4),
    'PNG': (encoded(SMOOTH, 'PNG'), 0),
    'WEBP': (encoded(SMOOTH, 'WEBP', lossless=True), 0),
}


@pytest.mark.parametrize('format', ['', 'jpeg', 'jpg', 'png', 'webp', 'rgb8; jpeg compressed bgr8',
                                    'bgr8; png compressed bgr8', 'rgba8; jpeg compressed bgr8',
                                    'bayer_rggb8; jpeg compressed bgr8', 'yuv422; jpeg compressed ',
                                    'rgb8; jpeg compressed ', 'mono8; jpeg compressed mono8'])
@pytest.mark.parametrize('kind', FILES)
def test_colour_file_decodes_whatever_the_format_says(kind, format):
    data, tolerance = FILES[kind]
    rgb = to_rgb(compressed(data, format))
    assert np.abs(rgb.astype(int) - SMOOTH).max() <= tolerance


def test_channels_swapped_by_the_old_transport_are_swapped_back():
    data = encoded(SMOOTH[..., ::-1], 'PNG')
    rgb = to_rgb(compressed(data, 'bgr8; png compressed rgb8'))
    np.testing.assert_array_equal(rgb, SMOOTH)


@pytest.mark.parametrize('kind', ['PNG', 'WEBP'])
def test_alpha_is_dropped(kind):
    alpha = np.full((48, 64, 1), 128, np.uint8)
    options = {'lossless': True, 'exact': True} if kind == 'WEBP' else {}
    data = encoded(np.dstack([SMOOTH, alpha]), kind, **options)
    np.testing.assert_array_equal(to_rgb(compressed(data)), SMOOTH)


@pytest.mark.parametrize('kind', ['JPEG', 'PNG'])
@pytest.mark.parametrize('source', ['rgb8', 'bgr8', 'yuv422_yuy2', 'nv12'])
def test_one_channel_of_a_colour_source_blames_the_driver(kind, source):
    data = encoded(SMOOTH[..., 0], kind)
    with pytest.raises(ImageError, match=f'one channel though its source is {source}: .*driver'):
        to_rgb(compressed(data, f'{source}; {kind.lower()} compressed bgr8'))


@pytest.mark.parametrize('target', ['', 'mono8'])
def test_one_channel_jpeg_of_a_mosaic_blames_the_driver(target):
    data = encoded(mosaic('rggb'), 'JPEG')
    with pytest.raises(ImageError, match='source is bayer_rggb8: .*driver lost the colour'):
        to_rgb(compressed(data, f'bayer_rggb8; jpeg compressed {target}'))


def test_one_channel_png_of_a_mosaic_is_demosaiced():
    data = encoded(mosaic('gbrg'), 'PNG')
    rgb = to_rgb(compressed(data, 'bayer_gbrg8; png compressed '))
    np.testing.assert_array_equal(rgb, np.tile(COLOUR, (6, 8, 1)))


@pytest.mark.parametrize('format', ['', 'jpeg', 'png', 'mono8; png compressed ',
                                    '8UC1; png compressed '])
def test_grey_file_of_a_grey_source_gets_three_equal_channels(format):
    grey = SMOOTH[..., 0]
    rgb = to_rgb(compressed(encoded(grey, 'PNG'), format))
    np.testing.assert_array_equal(rgb, np.dstack([grey] * 3))


@pytest.mark.parametrize('format', ['png', 'rgb16; png compressed bgr16', '16UC1; png compressed '])
def test_16_bit_file_is_refused(format):
    data = encoded(PillowImage.fromarray(np.full((4, 4), 3000, np.uint16)), 'PNG')
    with pytest.raises(ImageError, match='holds uint16, wanted uint8'):
        to_rgb(compressed(data, format))


def test_grey_jpeg_of_a_16_bit_source_is_refused():
    data = encoded(SMOOTH[..., 0], 'JPEG')
    with pytest.raises(ImageError, match='mono16 is a depth or 16-bit picture'):
        to_rgb(compressed(data, 'mono16; jpeg compressed mono8'))


def test_compressed_depth_is_refused():
    with pytest.raises(ImageError, match='is a depth picture, wanted colour'):
        to_rgb(compressed(bytes(12) + FILES['PNG'][0], '16UC1; compressedDepth png'))


@pytest.mark.parametrize('kept', [0.02, 0.5, 0.9])
@pytest.mark.parametrize('kind', FILES)
def test_truncated_file_is_an_error(kind, kept):
    data = FILES[kind][0]
    with pytest.raises(ImageError, match='truncated|cut short'):
        to_rgb(compressed(data[:int(kept * len(data))], kind.lower()))


def test_truncated_jpeg_is_refused_before_a_lenient_decoder_sees_it(monkeypatch):
    grey = np.full((48, 64, 3), 128, np.uint8)
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: grey)
    with pytest.raises(ImageError, match='truncated: it has no end marker'):
        to_rgb(compressed(FILES['JPEG'][0][:-2], 'jpeg'))


def test_end_marker_of_a_thumbnail_does_not_hide_a_truncation(monkeypatch):
    grey = np.full((48, 64, 3), 128, np.uint8)
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: grey)
    thumbnail = encoded(SMOOTH[::8, ::8], 'JPEG')
    segment = b'\xff\xee' + struct.pack('>H', len(thumbnail) + 2) + thumbnail
    whole = FILES['JPEG'][0]
    with pytest.raises(ImageError, match='truncated'):
        to_rgb(compressed(whole[:2] + segment + whole[2:-400], 'jpeg'))


def test_zeros_after_the_end_of_a_jpeg_are_harmless():
    data, tolerance = FILES['JPEG']
    rgb = to_rgb(compressed(data + bytes(64), 'jpeg'))
    assert np.abs(rgb.astype(int) - SMOOTH).max() <= tolerance


def test_exif_rotation_is_ignored():
    exif = PillowImage.Exif()
    exif[0x0112] = 6  # orientation: turn by 90 degrees
    rgb = to_rgb(compressed(encoded(SMOOTH, 'JPEG', quality=95, exif=exif), 'jpeg'))
    assert rgb.shape == (48, 64, 3)


@pytest.mark.parametrize('data', [b'', b'\0' * 100, b'\0\0\0\1\x67\x42', b'\xff\xd8\xff'])
def test_bytes_of_no_picture_are_refused(data):
    with pytest.raises(ImageError, match='is not a JPEG, PNG or WebP file'):
        to_rgb(compressed(data, 'jpeg'))


@pytest.mark.filterwarnings('ignore::PIL.Image.DecompressionBombWarning')
@pytest.mark.parametrize('side', [9000, 11000, 60000])
def test_huge_file_is_refused_from_its_header(side):
    def chunk(name, body):
        check = struct.pack('>I', zlib.crc32(name + body))
        return struct.pack('>I', len(body)) + name + body + check

    head = chunk(b'IHDR', struct.pack('>IIBBBBB', side, side, 8, 2, 0, 0, 0))
    data = b'\x89PNG\r\n\x1a\n' + head + chunk(b'IDAT', zlib.compress(b'')) + chunk(b'IEND', b'')
    with pytest.raises(ImageError, match=f'size {side}x{side}, wanted at most|too large'):
        to_rgb(compressed(data, 'png'))


@pytest.mark.parametrize(('format', 'tolerance'), [('jpeg', 8), ('png', 0)])
def test_compressed_picture_reads_back_anywhere(format, tolerance):
    sent = compress(SMOOTH, Header(frame_id='world'), format)
    assert sent.format == f'rgb8; {format} compressed bgr8' and sent.header.frame_id == 'world'
    elsewhere = np.asarray(PillowImage.open(io.BytesIO(bytes(sent.data))))
    assert np.abs(elsewhere.astype(int) - SMOOTH).max() <= tolerance
    assert np.abs(to_rgb(sent).astype(int) - SMOOTH).max() <= tolerance
