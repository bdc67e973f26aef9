"""Decoding: any image to 8-bit RGB, or the reason why it cannot be decoded."""

import hashlib
import io
import logging
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, PngImagePlugin, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from isopix.core import text
from isopix.core.files import MAX_BYTES, read_regular

RawImage = Path | bytes | NDArray[Any]  # a file, an encoded image, or pixels [H W], [H W 3], [H W 4]

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF", "HEIF")
# What reads the suffixes that are not of every Pillow.
PACKAGES = dict.fromkeys((".heic", ".heif", ".hif"), "pip install -e '.[heif]'")
PACKAGES[".avif"] = "pip install 'pillow>=11.3'"
LOSSY = re.compile(rb"\xff\xd8|RIFF....WEBP|....ftyp", re.DOTALL)  # JPEG, WebP, AVIF and HEIF
MAX_PIXELS = 89_478_485  # as Pillow's limit, above which it warns; above twice as many it refuses
NEVER_REDUCED = 2**31 - 1  # no image has sides of this many pixels
MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")  # that begins a segment of a JPEG, or ends it
SOI, EOI, SOS = b"\xff\xd8", b"\xff\xd9", b"\xff\xda"  # the markers of start, end, and start of a scan
MAX_SCANS = 500  # of a JPEG: each may take as long as a whole image, and have ten bytes
MIDDLE = 128  # of the levels 0 to 255: from here on, a pixel of a mask is white, or opaque
DARK = 2**15  # samples below half of the 65,536 levels make dark images
BITS, PHOTOMETRIC, PLANES = 258, 262, 284  # TIFF tags
ORIENTATION = 0x0112  # the EXIF tag

# Pillow logs what is wrong with a file besides raising it, and warns of what it reads in part.
logging.getLogger("PIL").addHandler(logging.NullHandler())
warnings.filterwarnings("ignore", module=r"PIL\.")
# Pillow refuses PNG files with more than a megabyte of text or color profile.
PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY


@cache
def image_suffixes() -> dict[str, str]:
    """Return the suffixes, in lower case, of the files that are read as images, with Pillow's formats."""
    with suppress(ImportError):
        import pillow_heif  # noqa: PLC0415  the optional extra `heif`

        pillow_heif.register_heif_opener()
    found = sorted(Image.registered_extensions().items())
    return {suffix: name for suffix, name in found if name in FORMATS}


def decode_image(
    content: bytes | NDArray[Any], min_side: int, *, max_pixels: int = MAX_PIXELS, white: int | None = None
) -> Image.Image:
    """Return the image as 8-bit RGB, upright, the first frame of several.

    Transparency is composited on white; CMYK is converted without a color profile. Gray samples of more than
    8 bits reach from 0 to `white`, by default 65,535; 16-bit color keeps its high bytes. A JPEG may be
    decoded at 1/2, 1/4 or 1/8 of its size, with sides of at least `min_side`.

    Raises ValueError for more than `max_pixels`, by the header, before any pixel is decoded.
    """
    if isinstance(content, np.ndarray):
        return _to_rgb(Image.fromarray(content), white)
    with opened_image(content, max_pixels) as image:
        image.draft(None, (min_side, min_side))
        return upright_rgb(image, white)


def upright_rgb(image: Image.Image, white: int | None = None) -> Image.Image:
    """Return an opened image as `decode_image` does."""
    image.load()  # Pillow turns TIFF files here, and removes their tag
    rgb = _to_rgb(image, white)
    rgb.info = {}  # with the EXIF block, which may be damaged
    rgb.getexif()[ORIENTATION] = _orientation(image)
    ImageOps.exif_transpose(rgb, in_place=True)
    return rgb


def range_note(images: Iterable[RawImage], white: int | None = None) -> tuple[str, ...]:
    """Return a note if these images use so few of their 16 bits that they are dark, or more than `white`.

    Raises ValueError if they use 8 bits only, so that all would be black.
    """
    largest = max(map(_largest_sample, images), default=0)
    if white is not None:
        above = f"gray samples above data.white={white} become white; the largest is {largest:,}"
        return (above,) if largest > white else ()
    top = max(255, 2 ** largest.bit_length() - 1)
    way = f"data.white={top} sets white in gray images; color needs 8 bits"
    if 0 < largest < 256:
        raise ValueError(f"16-bit images with no sample above {largest} would be black; {way}")
    note = f"16-bit images are dark: their largest sample is {largest:,} of 65,535; {way}"
    return (note,) if 0 < largest < DARK else ()


def _largest_sample(raw: RawImage) -> int:
    """Return the largest sample of an image of more than 8 bits that can be read; 0 for others."""
    with suppress(Exception):  # as damaged files raise
        content = read_content(raw)
        if isinstance(content, np.ndarray):
            return int(content.max()) if content.dtype in (np.uint16, np.int32) else 0
        with opened_image(content, MAX_PIXELS) as image:
            if image.mode.startswith("I"):
                return int(np.asarray(image).max())
            if ";16" in str(image.tile):  # 16-bit color, of which Pillow gives the high bytes
                return 256 * int(np.asarray(image.convert("RGB")).max()) + 255
    return 0


def image_header(content: bytes | NDArray[Any]) -> tuple[int, int, str, str]:
    """Return width and height of the upright image, its format ("array" for an array), and its mode."""
    if isinstance(content, np.ndarray):
        return content.shape[1], content.shape[0], "array", Image.fromarray(content).mode
    with opened_image(content, 2 * MAX_PIXELS) as image:  # `decode_image` has the limit
        # Pillow gives the size of the upright image for TIFF files alone.
        is_lying = image.format != "TIFF" and _orientation(image) in (5, 6, 7, 8)
        width, height = image.size[::-1] if is_lying else image.size
        return width, height, image.format or "unknown", image.mode


def read_content(raw: RawImage) -> bytes | NDArray[Any]:
    """Return the bytes of an encoded image, or an array as it is. Raises ValueError for what is no file."""
    return read_regular(raw) if isinstance(raw, Path) else raw


def read_mask(path: Path) -> Bool[np.ndarray, "rows cols"]:
    """Return True where an image file masks: its transparent pixels, or if it has none, its white ones."""
    try:
        content = read_content(path)
        assert isinstance(content, bytes), "a file"
        range_note([content])  # raises ValueError
        lightness = np.asarray(decode_image(content, NEVER_REDUCED).convert("L"))
        with opened_image(content, MAX_PIXELS) as image:
            alpha = np.asarray(ImageOps.exif_transpose(image).convert("RGBA"))[..., 3]
    except Exception as error:  # damaged files raise OSError, ValueError, SyntaxError, struct.error and more
        raise ValueError(f"mask {path} cannot be read: {failure_reason(error)}") from None
    transparent = alpha < MIDDLE
    return transparent if transparent.any() else lightness >= MIDDLE


def content_number(content: bytes | NDArray[Any], rgb: Image.Image) -> int:
    """Return a 63-bit hash of an image, which its copies share.

    It is of the file for lossy formats, whose decoders may differ, and else of the pixels `rgb`.
    """
    state = hashlib.blake2b(digest_size=8)
    if isinstance(content, bytes) and LOSSY.match(content):
        state.update(content)
    else:
        pixels = np.asarray(rgb)
        if (pixels == pixels[..., :1]).all():
            pixels = pixels[..., 0]
        state.update(str(pixels.shape).encode())
        state.update(np.ascontiguousarray(pixels).data)
    return int.from_bytes(state.digest(), "big") >> 1


def is_jpeg(content: bytes) -> bool:
    """Return whether a file is a JPEG, by its first bytes."""
    return content[:2] == SOI


def failure_reason(error: Exception) -> str:
    """Return in one line, without memory addresses, why an image could not be decoded."""
    if isinstance(error, UnidentifiedImageError):
        *names, last = (each for each in FORMATS if each in image_suffixes().values())
        return f"not a {', '.join(names)} or {last} image"
    return text.error_line(error)


@contextmanager
def opened_image(content: bytes, max_pixels: int = MAX_PIXELS) -> Iterator[ImageFile.ImageFile]:
    """Open a file of `FORMATS` of which nothing is decoded yet. Raises ValueError above the limits."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"{len(content):,} bytes, above the limit of {MAX_BYTES:,}")
    if not content:
        raise ValueError("empty file")
    if is_jpeg(content) and _has_many_scans(content):
        raise ValueError(f"more than {MAX_SCANS} scans, the limit")
    with Image.open(io.BytesIO(content), formats=[*image_suffixes().values()]) as image:
        width, height = image.size
        if width * height > max_pixels:
            limit = f"the limit of {max_pixels:,} (data.max_pixels)"
            raise ValueError(f"{width}x{height} pixels, above {limit}")
        yield image


def _has_many_scans(jpeg: bytes) -> bool:
    """Whether a file has more than MAX_SCANS, without those of thumbnails and of what follows its end."""
    scans, place = 0, len(SOI)
    while scans <= MAX_SCANS and (marker := MARKER.search(jpeg, place)) and marker[0] != EOI:
        place = marker.end()
        scans += marker[0] == SOS
        if marker[0] != SOI:
            place += int.from_bytes(jpeg[place : place + 2])  # of the segment, with these two bytes
    return scans > MAX_SCANS


def _orientation(image: Image.Image) -> int:
    """Return 1 (upright) if the EXIF block is damaged, as for an image without one."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # Pillow raises a dozen types here
        return 1


def _to_rgb(image: Image.Image, white: int | None) -> Image.Image:
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    if tags.get(PLANES) == 2 and (max(tags.get(BITS, (1,))) > 8 or image.mode == "LA"):
        raise ValueError("Pillow misreads separate color planes of this kind; write a TIFF file of one plane")
    if image.mode.startswith("I"):
        levels = _levels(np.asarray(image), white)
        return Image.fromarray(255 - levels if tags.get(PHOTOMETRIC) == 0 else levels).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point samples of unknown range")
    if image.has_transparency_data:
        ground = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(ground, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def _levels(samples: NDArray[Any], white: int | None) -> NDArray[np.uint8]:
    low, high, top = int(samples.min(initial=0)), int(samples.max(initial=0)), white or 0xFFFF
    if low < 0 or (white is None and high > top):
        way = "data.white says what is white"
        raise ValueError(f"32-bit samples of unknown range, from {low} to {high}; {way}")
    return (np.minimum(samples.astype(np.int64), top) * 256 // (top + 1)).astype(np.uint8)
