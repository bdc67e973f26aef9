"""Conversions by the stated rules, and broken or hostile pictures refused with a reason."""

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from isopix.data.decode import content_number, decode_image, failure_reason, image_header, upright_rgb


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
    for image in (decode_image(data, 1), upright_rgb(opened), upright_rgb(loaded)):
        assert np.asarray(image).tolist() == expected.tolist()
    assert image_header(data)[:2] == (expected.shape[1], expected.shape[0])


def test_a_large_jpeg_is_decoded_no_smaller_than_asked_for() -> None:
    data = _encode(Image.new("RGB", (1000, 600)), "JPEG")
    assert decode_image(data, 100).size == (250, 150)
    assert decode_image(data, 400).size == (1000, 600)


NOISE = _encode(Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty file"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "not a JPEG, PNG, WEBP, BMP, GIF or TIFF image"),
        (NOISE[:5000], "image file is truncated"),
        (_encode(Image.new("1", (5000, 5000))), "5000x5000 pixels, above the limit of 16,000,000"),
        (_encode(Image.new("F", (4, 4), 0.5), "TIFF"), "floating-point samples of unknown range"),
        (_encode(Image.new("I", (4, 4), 70_000), "TIFF"), "32-bit samples of unknown range"),
    ],
)
def test_a_bad_image_is_rejected_with_its_reason(data: bytes, why: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # any kind: the reason is what is tested
        decode_image(data, 1)
    assert failure_reason(caught.value).startswith(why)


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
