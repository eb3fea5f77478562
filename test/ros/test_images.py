# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures from messages: each encoding is built here from its definition."""

import array
import io
import struct
from types import SimpleNamespace
import zlib

import cv2
import numpy as np
from PIL import Image as PillowImage
import pytest
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from cosmos3_ros.ros.images import compress, ENCODINGS, from_rgb, ImageError, to_rgb

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


# Compressed


def encoded(picture, kind, **options):
    out = io.BytesIO()
    if isinstance(picture, np.ndarray):
        picture = PillowImage.fromarray(picture)
    picture.save(out, kind, **options)
    return out.getvalue()


def compressed(data, format=''):
    return CompressedImage(format=format, data=array.array('B', data))


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
    data = encoded(mosaic(FLAT, 'rggb'), 'JPEG')
    with pytest.raises(ImageError, match='source is bayer_rggb8: .*driver lost the colour'):
        to_rgb(compressed(data, f'bayer_rggb8; jpeg compressed {target}'))


def test_one_channel_png_of_a_mosaic_is_demosaiced():
    data = encoded(mosaic(FLAT, 'gbrg'), 'PNG')
    rgb = to_rgb(compressed(data, 'bayer_gbrg8; png compressed '))
    np.testing.assert_array_equal(rgb, FLAT)


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


# Publishing


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


@pytest.mark.parametrize(('format', 'tolerance'), [('jpeg', 8), ('png', 0)])
def test_compressed_picture_reads_back_anywhere(format, tolerance):
    sent = compress(SMOOTH, Header(frame_id='world'), format)
    assert sent.format == f'rgb8; {format} compressed bgr8' and sent.header.frame_id == 'world'
    elsewhere = np.asarray(PillowImage.open(io.BytesIO(bytes(sent.data))))
    assert np.abs(elsewhere.astype(int) - SMOOTH).max() <= tolerance
    assert np.abs(to_rgb(sent).astype(int) - SMOOTH).max() <= tolerance


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
