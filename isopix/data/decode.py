"""Decoding: any image to 8-bit RGB, or the reason why it cannot be decoded."""

import hashlib
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from isopix.core import text

RawImage = Path | bytes | NDArray[Any]  # a file, an encoded image, or pixels [H W], [H W 3], [H W 4]

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
MAX_PIXELS = 16_000_000  # read from the header, before any pixel is decoded
NEVER_REDUCED = 2**31 - 1  # no image has sides of this many pixels
MAX_BYTES = 64 * 2**20  # of a file, or of an image inside one
WHITE = (255, 255, 255, 255)

# Pillow logs what is wrong with a file besides raising it; without a handler that is printed.
logging.getLogger("PIL").addHandler(logging.NullHandler())

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
ON_ITS_SIDE = [UPRIGHT[orientation] for orientation in (5, 6, 7, 8)]


def decode_image(content: bytes | NDArray[Any], min_side: int) -> Image.Image:
    """Return the image as 8-bit RGB, upright.

    Gray is repeated three times; palettes are looked up; transparency is composited on white; CMYK is
    converted by Pillow's formula without a color profile; 16-bit samples keep their high byte; an animation
    gives its first frame; EXIF orientation is applied where it can be read. A JPEG may be decoded at 1/2, 1/4
    or 1/8 of its size (libjpeg's averaging) as long as both sides are at least `min_side`. Raises ValueError
    or whatever Pillow raises.
    """
    if isinstance(content, np.ndarray):
        return _to_rgb(Image.fromarray(content))
    with _opened(content) as image:
        image.draft(None, (min_side, min_side))
        return upright_rgb(image)


def upright_rgb(image: Image.Image) -> Image.Image:
    """Return an opened image as `decode_image` does. Raises ValueError for samples of unknown range, or
    whatever Pillow raises.
    """
    transpose = UPRIGHT.get(_orientation(image))
    rgb = _to_rgb(image)
    return rgb if transpose is None else rgb.transpose(transpose)


class ImageHeader(NamedTuple):
    """Width and height of the upright image, and Pillow's names of its format and mode."""

    width: int
    height: int
    format: str
    mode: str


def image_header(content: bytes | NDArray[Any]) -> ImageHeader:
    """Return what an image is before it is decoded; the format of an array is "array". Raises as
    `decode_image`.
    """
    if isinstance(content, np.ndarray):
        height, width = content.shape[:2]
        return ImageHeader(width, height, "array", Image.fromarray(content).mode)
    with _opened(content) as image:
        width, height = image.size
        if UPRIGHT.get(_orientation(image)) in ON_ITS_SIDE:
            width, height = height, width
        return ImageHeader(width, height, image.format or "unknown", image.mode)


def read_content(raw: RawImage) -> bytes | NDArray[Any]:
    """Return the bytes of an encoded image, or an array as it is. Raises ValueError for what is no file."""
    return _read(raw) if isinstance(raw, Path) else raw


def content_number(content: bytes | NDArray[Any], rgb: Image.Image) -> int:
    """Return a 63-bit hash of an image, which its copies share; `rgb` is what `decode_image` returns for it.

    It is that of the file for JPEG and WebP, whose decoders may differ in pixels, and that of the pixels for
    all other files and for arrays; gray pixels are hashed as one channel.
    """
    state = hashlib.blake2b(digest_size=8)
    if isinstance(content, bytes) and _is_lossy(content):
        state.update(content)
    else:
        pixels = np.asarray(rgb)
        if (pixels == pixels[..., :1]).all():
            pixels = pixels[..., 0]
        state.update(str(pixels.shape).encode())
        state.update(pixels.tobytes())
    return int.from_bytes(state.digest(), "big") >> 1


@contextmanager
def _opened(content: bytes) -> Iterator[Image.Image]:
    """Open an encoded image and read its header. Raises ValueError for one that is too large."""
    _check_size(len(content))
    if not content:
        raise ValueError("empty file")
    with Image.open(io.BytesIO(content), formats=FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise ValueError(f"{width}x{height} pixels, above the limit of {MAX_PIXELS:,}")
        yield image


def is_jpeg(content: bytes) -> bool:
    """Return whether a file is a JPEG, by its first bytes."""
    return content[:2] == b"\xff\xd8"


def failure_reason(error: Exception) -> str:
    """Return in one line, without memory addresses, why an image could not be decoded."""
    if isinstance(error, UnidentifiedImageError):
        return f"not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
    return text.error_line(error)


def _read(path: Path) -> bytes:
    size = path.stat().st_size  # raises OSError on a loop of symlinks
    if not path.is_file():
        raise ValueError("not a regular file")
    _check_size(size)
    return path.read_bytes()


def _is_lossy(content: bytes) -> bool:
    """Return whether a file is a JPEG or a WebP, by its first bytes."""
    return is_jpeg(content) or (content[:4], content[8:12]) == (b"RIFF", b"WEBP")


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
        return Image.fromarray(_high_byte(np.asarray(image))).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point samples of unknown range")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, WHITE)
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def _high_byte(samples: NDArray[Any]) -> NDArray[np.uint8]:
    if samples.size and (samples.min() < 0 or samples.max() > 0xFFFF):
        raise ValueError("32-bit samples of unknown range")
    return (samples >> 8).astype(np.uint8)
