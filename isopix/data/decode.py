"""Decoding: any image to 8-bit RGB, or the reason why it cannot be decoded."""

import hashlib
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from isopix.core import text

RawImage = Path | bytes | NDArray[Any]  # a file, an encoded image, or pixels [H W], [H W 3], [H W 4]

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
MAX_PIXELS = 16_000_000  # read from the header, before any pixel is decoded
NEVER_REDUCED = 2**31 - 1  # no image has sides of this many pixels
MAX_BYTES = 64 * 2**20  # of a file, or of an image inside one
MIDDLE = 128  # of the levels 0 to 255: from here on, a pixel of a mask is white, or opaque
ORIENTATION = 0x0112  # the EXIF tag
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Pillow logs what is wrong with a file besides raising it; without a handler that is printed.
logging.getLogger("PIL").addHandler(logging.NullHandler())


def decode_image(content: bytes | NDArray[Any], min_side: int) -> Image.Image:
    """Return the image as 8-bit RGB, upright, the first frame of several.

    Transparency is composited on white; CMYK is converted without a color profile; 16-bit samples keep their
    high byte. A JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, while its sides are at least `min_side`.
    """
    if isinstance(content, np.ndarray):
        return _to_rgb(Image.fromarray(content))
    with _opened(content) as image:
        image.draft(None, (min_side, min_side))
        return upright_rgb(image)


def upright_rgb(image: Image.Image) -> Image.Image:
    """Return an opened image as `decode_image` does."""
    image.load()  # Pillow turns TIFF files here, and removes their tag
    transpose = UPRIGHT.get(_orientation(image))
    rgb = _to_rgb(image)
    return rgb if transpose is None else rgb.transpose(transpose)


def image_header(content: bytes | NDArray[Any]) -> tuple[int, int, str, str]:
    """Return width and height of the upright image, its format ("array" for an array), and its mode."""
    if isinstance(content, np.ndarray):
        return content.shape[1], content.shape[0], "array", Image.fromarray(content).mode
    with _opened(content) as image:
        # Pillow gives the size of the upright image for TIFF files alone.
        is_lying = image.format != "TIFF" and _orientation(image) in (5, 6, 7, 8)
        width, height = image.size[::-1] if is_lying else image.size
        return width, height, image.format or "unknown", image.mode


def read_content(raw: RawImage) -> bytes | NDArray[Any]:
    """Return the bytes of an encoded image, or an array as it is. Raises ValueError for what is no file."""
    if not isinstance(raw, Path):
        return raw
    size = raw.stat().st_size  # raises OSError on a loop of symlinks
    if not raw.is_file():
        raise ValueError("not a regular file")
    _check_size(size)
    return raw.read_bytes()


def read_mask(path: Path) -> Bool[np.ndarray, "rows cols"]:
    """Return True where an image file masks: its transparent pixels, or if it has none, its white ones."""
    try:
        content = read_content(path)
        assert isinstance(content, bytes), "a file"
        lightness = np.asarray(decode_image(content, NEVER_REDUCED).convert("L"))
        with Image.open(io.BytesIO(content)) as image:
            alpha = np.asarray(ImageOps.exif_transpose(image).convert("RGBA"))[..., 3]
    except Exception as error:  # damaged files raise OSError, ValueError, SyntaxError, struct.error and more
        raise ValueError(f"mask {path} cannot be read: {failure_reason(error)}") from None
    transparent = alpha < MIDDLE
    return transparent if transparent.any() else lightness >= MIDDLE


def content_number(content: bytes | NDArray[Any], rgb: Image.Image) -> int:
    """Return a 63-bit hash of an image, which its copies share.

    It is of the file for JPEG and WebP, whose decoders may differ, and else of the pixels `rgb`.
    """
    state = hashlib.blake2b(digest_size=8)
    if isinstance(content, bytes) and (is_jpeg(content) or content[:4] + content[8:12] == b"RIFFWEBP"):
        state.update(content)
    else:
        pixels = np.asarray(rgb)
        if (pixels == pixels[..., :1]).all():
            pixels = pixels[..., 0]
        state.update(str(pixels.shape).encode())
        state.update(pixels.tobytes())
    return int.from_bytes(state.digest(), "big") >> 1


def is_jpeg(content: bytes) -> bool:
    """Return whether a file is a JPEG, by its first bytes."""
    return content[:2] == b"\xff\xd8"


def failure_reason(error: Exception) -> str:
    """Return in one line, without memory addresses, why an image could not be decoded."""
    if isinstance(error, UnidentifiedImageError):
        return f"not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
    return text.error_line(error)


@contextmanager
def _opened(content: bytes) -> Iterator[Image.Image]:
    _check_size(len(content))
    if not content:
        raise ValueError("empty file")
    with Image.open(io.BytesIO(content), formats=FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise ValueError(f"{width}x{height} pixels, above the limit of {MAX_PIXELS:,}")
        yield image


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise ValueError(f"{size:,} bytes, above the limit of {MAX_BYTES:,}")


def _orientation(image: Image.Image) -> int:
    """Return 1 (upright) if the EXIF block is damaged, as for an image without one."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # Pillow raises a dozen types here
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        samples = np.asarray(image)
        if samples.size and (samples.min() < 0 or samples.max() > 0xFFFF):
            raise ValueError("32-bit samples of unknown range")
        return Image.fromarray((samples >> 8).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point samples of unknown range")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")
