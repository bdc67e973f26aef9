"""Decoding: any picture to 8-bit RGB by stated rules, and a hostile or broken one to the reason why not."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from isopix.data.sources.base import Picture

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
MAX_PIXELS = 16_000_000  # read from the header, before any pixel is decoded
MAX_BYTES = 64 * 2**20  # of a file, or of a picture inside one
WHITE = (255, 255, 255, 255)

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


def decode(picture: Picture, least: int) -> Image.Image:
    """The picture as 8-bit RGB, upright.

    Grey is repeated three times; a palette is looked up; transparency is laid on white; CMYK is converted by
    Pillow's formula without a colour profile; 16-bit samples keep their high byte; an animation gives its
    first frame; EXIF orientation is applied where it can be read. A JPEG may be decoded at 1/2, 1/4 or 1/8 of
    its size (libjpeg's own averaging) as long as both sides stay at or above `least`. Raises ValueError or
    whatever Pillow raises.
    """
    if isinstance(picture, np.ndarray):
        return _to_rgb(Image.fromarray(picture))
    data = _read(picture) if isinstance(picture, Path) else picture
    _require_small(len(data))
    if not data:
        raise ValueError("empty file")
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise ValueError(f"{width}x{height} pixels, above the limit of {MAX_PIXELS:,}")
        image.draft(None, (least, least))
        turn = UPRIGHT.get(_orientation(image))
        rgb = _to_rgb(image)
    return rgb if turn is None else rgb.transpose(turn)


def reason(error: Exception) -> str:
    """Why a picture could not be decoded, in one line without addresses in memory."""
    if isinstance(error, UnidentifiedImageError):
        return f"not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _read(path: Path) -> bytes:
    size = path.stat().st_size  # raises OSError on a loop of links
    if not path.is_file():
        raise ValueError("not a regular file")
    _require_small(size)
    return path.read_bytes()


def _require_small(size: int) -> None:
    if size > MAX_BYTES:
        raise ValueError(f"{size:,} bytes, above the limit of {MAX_BYTES:,}")


def _orientation(image: Image.Image) -> int:
    """1 (upright) where the EXIF block is broken: such a picture is as good as one without."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # Pillow raises a dozen kinds here, and no pixel depends on the block
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return Image.fromarray(_high_byte(np.asarray(image))).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point samples, whose range is not known")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, WHITE)
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def _high_byte(samples: NDArray[Any]) -> NDArray[np.uint8]:
    if samples.size and (samples.min() < 0 or samples.max() > 0xFFFF):
        raise ValueError("32-bit samples, whose range is not known")
    return (samples >> 8).astype(np.uint8)
