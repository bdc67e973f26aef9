"""Conversions by the stated rules, and broken or hostile pictures refused with a reason."""

import hashlib
import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from isopix.data import decode
from isopix.data.decode import content_number, decode_image, failure_reason, image_header, range_note


def _encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


PALETTED = Image.new("P", (4, 4), 1)
PALETTED.putpalette([0, 0, 0, 10, 200, 30])
SIXTEEN_BIT = Image.fromarray(np.full((4, 4), 0xAB12, dtype=np.uint16))
BLUE, RED = (Image.new("RGB", (4, 4), color) for color in ("blue", "red"))


@pytest.mark.parametrize(
    ("data", "pixel"),
    [
        (_encode(Image.new("L", (4, 4), 77)), (77, 77, 77)),
        (_encode(Image.new("1", (4, 4), 1)), (255, 255, 255)),
        (_encode(PALETTED), (10, 200, 30)),
        (_encode(PALETTED, transparency=1), (255, 255, 255)),
        (_encode(Image.new("RGBA", (4, 4), (0, 0, 0, 51))), (204, 204, 204)),
        (_encode(Image.new("LA", (4, 4), (0, 51))), (204, 204, 204)),
        (_encode(Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "TIFF"), (255, 0, 0)),
        (_encode(SIXTEEN_BIT), (0xAB, 0xAB, 0xAB)),
        (_encode(SIXTEEN_BIT, "TIFF"), (0xAB, 0xAB, 0xAB)),
        (np.full((2, 2), 0x1FF, dtype=np.uint16), (1, 1, 1)),
        (_encode(BLUE, "GIF", save_all=True, append_images=[RED]), (0, 0, 255)),
    ],
)
def test_conversion_rule(data: bytes | np.ndarray, pixel: tuple[int, ...]) -> None:
    assert decode_image(data, 1).getpixel((0, 0)) == pixel


LYING = np.random.default_rng(0).integers(0, 256, (3, 5, 3), dtype=np.uint8)
TURNED = LYING.swapaxes(0, 1)
UPRIGHT = [LYING, LYING[:, ::-1], LYING[::-1, ::-1], LYING[::-1]]  # by the EXIF tag, from 1 on
UPRIGHT += [TURNED, TURNED[:, ::-1], TURNED[::-1, ::-1], TURNED[::-1]]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_once(orientation: int, kind: str) -> None:
    """Pillow turns TIFF files when their pixels are read, and no others."""
    exif, expected = Image.Exif(), UPRIGHT[orientation - 1]
    exif[0x0112] = orientation
    data = _encode(Image.fromarray(LYING), kind, exif=exif)
    opened, loaded = Image.open(io.BytesIO(data)), Image.open(io.BytesIO(data))
    loaded.load()
    for image in (decode_image(data, 1), decode.upright_rgb(opened), decode.upright_rgb(loaded)):
        assert np.asarray(image).tolist() == expected.tolist()
    assert image_header(data)[:2] == (expected.shape[1], expected.shape[0])


def test_a_large_jpeg_is_decoded_no_smaller_than_asked_for() -> None:
    data = _encode(Image.new("RGB", (1000, 600)), "JPEG")
    assert decode_image(data, 100).size == (250, 150)
    assert decode_image(data, 400).size == (1000, 600)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _png(width: int, height: int, bits: int, color: int, rows: bytes = b"", text: bytes = b"") -> bytes:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0))
    pixels = _chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + header + text + pixels + text + _chunk(b"IEND", b"")


def _tiff(samples: bytes, bits: int, white: int = 1, planes: int = 1) -> bytes:
    """A row of 4 pixels; `white` is the PhotometricInterpretation: 0 if zero is white, 1, or 2 for RGB."""
    values = {256: 4, 257: 1, 258: bits, 259: 1, 262: white, 273: 134, 277: 3 if white == 2 else 1}
    values |= {278: 1, 279: len(samples), 284: planes}
    fields = b"".join(struct.pack("<HHIHH", tag, 3, 1, value, 0) for tag, value in values.items())
    return struct.pack("<2sHIH", b"II", 42, 8, len(values)) + fields + struct.pack("<I", 0) + samples


NOISE = _encode(Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty file"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "not a JPEG, PNG, WEBP, BMP, GIF, TIFF"),
        (NOISE[:5000], "image file is truncated"),
        (_encode(Image.new("F", (4, 4), 0.5), "TIFF"), "floating-point samples of unknown range"),
        (_encode(Image.new("I", (4, 4), 70_000), "TIFF"), "32-bit samples of unknown range"),
        (_tiff(bytes(24), 16, white=2, planes=2), "Pillow misreads separate color planes"),
    ],
)
def test_a_bad_image_is_rejected_with_its_reason(data: bytes, why: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # any kind: the reason is what is tested
        decode_image(data, 1)
    assert failure_reason(caught.value).startswith(why)


SAMPLES = np.array([0, 17, 0x1234, 0xFFFF], np.uint16)


@pytest.mark.parametrize(
    ("data", "white", "levels"),
    [
        (SAMPLES[None], None, [0, 0, 0x12, 255]),
        (SAMPLES[None], 0x1234, [0, 0, 255, 255]),
        (4 * np.arange(256, dtype=np.uint16)[None], 1020, [*range(256)]),
        (_tiff(SAMPLES.tobytes(), 16, white=0), None, [255, 255, 255 - 0x12, 0]),
        (_encode(Image.new("I", (1, 1), 50_000), "TIFF"), 99_999, [128]),
    ],
)
def test_samples_of_more_bits_reach_from_zero_to_white(
    data: bytes | np.ndarray, white: int | None, levels: list[int]
) -> None:
    assert np.asarray(decode_image(data, 1, white=white))[0, :, 0].tolist() == levels


def test_samples_that_make_dark_images_are_noted_and_those_of_8_bits_refused() -> None:
    twelve = [_encode(Image.fromarray(SAMPLES[None, :count])) for count in (1, 3)]
    dark = "16-bit images are dark: their largest sample is 4,660 of 65,535; "
    assert range_note(twelve)[0].startswith(dark)
    color = _png(2, 1, 16, 2, b"\0" + struct.pack(">6H", 255, 0, 0, 256, 0, 0))
    assert "sample is 511 of 65,535; data.white=511 sets white in gray images" in range_note([color])[0]
    clear = _png(1, 1, 16, 6, b"\0" + struct.pack(">4H", 17, 0, 0, 65_535))  # opaque
    assert range_note(twelve, 255)[0].endswith("data.white=255 become white; the largest is 4,660")
    light = (([SAMPLES[None]], None), (twelve, 4660), ([b"", GRAY, NOISE], None))
    assert [range_note(*each) for each in light] == [(), (), ()]
    for black, largest in ((SAMPLES[None, :2].astype(np.int32), 17), (clear, 255)):
        with pytest.raises(ValueError, match=rf"no sample above {largest} would be black; data.white=255"):
            range_note([black])


def _scans(count: int, comment: bytes = b"", end: bytes = b"") -> bytes:
    """A progressive JPEG of so many scans, with a comment before them and bytes after its end."""
    content = _encode(Image.fromarray(GRAY), "JPEG", progressive=True)
    last, marker = content.rindex(b"\xff\xda"), b"\xff\xfe" + (len(comment) + 2).to_bytes(2)
    again = content[last:-2] * (count - content.count(b"\xff\xda"))
    return content[:2] + marker + comment + content[2:-2] + again + b"\xff\xd9" + end


def test_a_jpeg_of_many_scans_is_refused_and_what_only_looks_like_scans_is_not_counted() -> None:
    many = b"\xff\xda\0\2" * 600
    without_length = _scans(501).replace(b"\xff\xda", b"\xff\x01\xff\xda")
    for content in (_scans(500), _scans(9, comment=many), _scans(9, end=many)):
        assert decode_image(content, decode.NEVER_REDUCED).size == (6, 9)
    end = _scans(501, comment=b"\xff\xd9")
    for content in (_scans(501), _scans(4000), end, without_length, b"\xff\xd8" + many):
        with pytest.raises(ValueError, match="more than 500 scans"):
            decode_image(content, 1)


@pytest.mark.parametrize("kind", [b"zTXt", b"iCCP"])
def test_a_png_with_a_long_text_or_profile_is_read_and_stays_upright(kind: bytes) -> None:
    text = _chunk(kind, b"long\0\0" + zlib.compress(bytes(2_000_000)))
    assert np.asarray(decode_image(_png(2, 1, 8, 0, b"\0\5\7", text), 1))[..., 0].tolist() == [[5, 7]]
    turn = _chunk(b"iTXt", b'XML:com.adobe.xmp\0\0\0\0\0<x:xmpmeta tiff:Orientation="6"/>')
    assert decode_image(_png(2, 1, 8, 0, b"\0\5\7", text + turn), 1).size == (1, 2)


def test_photographs_of_24_megapixels_are_read_and_the_limit_holds_before_decoding() -> None:
    assert decode_image(_encode(Image.new("L", (6000, 4000)), "JPEG"), 32).size == (750, 500)
    assert image_header(_png(decode.MAX_PIXELS, 1, 8, 0))[:2] == (decode.MAX_PIXELS, 1)
    for limit in (24, 4_000_000):
        with pytest.raises(ValueError, match=rf"above the limit of {limit:,} \(data.max_pixels\)"):
            decode_image(_png(limit + 1, 1, 8, 0), 1, max_pixels=limit)


DRAW = np.random.default_rng(7)
COLOR = DRAW.integers(0, 256, (9, 6, 3), dtype=np.uint8)
GRAY = DRAW.integers(0, 256, (9, 6), dtype=np.uint8)
WIDE = GRAY.astype(np.uint16) * 256 + 17


def _number(content: bytes | np.ndarray) -> int:
    return content_number(content, decode_image(content, 1))


def _blake2b(*parts: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(b"".join(parts), digest_size=8).digest(), "big") >> 1


ENCODED = [_encode(Image.fromarray(COLOR), kind) for kind in ("PNG", "BMP", "TIFF")]
GRAYS = [_encode(Image.fromarray(GRAY), kind) for kind in ("PNG", "GIF")]


@pytest.mark.parametrize(
    ("pixels", "copies"),
    [
        (COLOR, [*ENCODED, np.dstack([COLOR, np.full_like(GRAY, 255)])]),
        (GRAY, [*GRAYS, np.dstack([GRAY] * 3), WIDE, _encode(Image.fromarray(WIDE), "TIFF")]),
    ],
    ids=["color", "gray"],
)
def test_files_and_arrays_of_the_same_pixels_are_copies(
    pixels: np.ndarray, copies: list[bytes | np.ndarray]
) -> None:
    """The hash is that of the shape and the bytes of the array."""
    expected = _blake2b(str(pixels.shape).encode(), pixels.tobytes())
    assert [_number(each) for each in (pixels, *copies)] == [expected] * (len(copies) + 1)


def test_copies_are_compared_upright_and_by_every_pixel() -> None:
    turned, other = Image.fromarray(np.rot90(COLOR).copy()), COLOR.copy()
    exif = Image.Exif()
    exif[0x0112] = 6  # to be rotated by 270 degrees
    other[8, 5, 2] ^= 1
    assert _number(_encode(turned, exif=exif)) == _number(COLOR)
    assert len({_number(each) for each in (COLOR, other, _encode(turned), COLOR.reshape(6, 9, 3))}) == 4


@pytest.mark.parametrize("options", [{"kind": "JPEG"}, {"kind": "WEBP"}, {"kind": "WEBP", "lossless": True}])
def test_copies_of_jpeg_and_webp_files_have_the_same_bytes(options: dict[str, object]) -> None:
    """Decoders may differ in their pixels, and a JPEG may be decoded at a fraction of its size."""
    data = _encode(Image.fromarray(COLOR), **options)  # type: ignore[arg-type]
    assert _number(data) == _blake2b(data)
    assert _number(data + b"0") == _blake2b(data, b"0")
