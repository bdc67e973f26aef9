"""No image crashes a reader, and every one that cannot be read is named."""

import csv
import io
import os
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isopix.data.dataset import DataConfig
from isopix.data.decode import decode_image
from isopix.data.load import load_dataset
from isopix.data.preprocess import PreprocessedImage, preprocess
from isopix.data.sources.base import SourceSplit
from tests.peak_memory import peak_memory

FORMATS = ("png", "jpg", "gif", "bmp", "webp", "tiff")
CONFIG = DataConfig(rows=8, cols=8)


def valid_image(kind: str) -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, "JPEG" if kind == "jpg" else kind.upper())
    return buffer.getvalue()


def mutated(content: bytes, draw: np.random.Generator) -> bytes:
    """Return the content with some bytes changed, removed, inserted, repeated or cut off."""
    for _ in range(draw.integers(1, 4)):
        place, other = draw.integers(0, len(content) + 1, 2)
        length = draw.integers(1, 9)
        extreme = bytes([draw.choice([0, 0x7F, 0x80, 0xFF])]) * length
        inserted = [b"", draw.bytes(length), extreme, content[other : other + 8 * length]]
        removed = [0, length, len(content)]
        content = content[:place] + draw.choice(inserted) + content[place + draw.choice(removed) :]
    return content


@pytest.mark.parametrize("count", [600, pytest.param(10_000, marks=pytest.mark.slow)])
def test_mutated_images_are_decoded_or_refused_with_a_reason(count: int) -> None:
    draw, valid = np.random.default_rng(0), [valid_image(kind) for kind in FORMATS]
    images = [mutated(valid[i % len(valid)], draw) for i in range(count)]
    split = SourceSplit(count, lambda start, stop: iter(images[start:stop]), str, None)
    results = list(preprocess(split, CONFIG))
    refused = [each for each in results if isinstance(each, str)]
    decoded = sum(isinstance(each, PreprocessedImage) for each in results)
    assert decoded + len(refused) == count
    assert all(0 < len(reason) < 1000 and len(reason.splitlines()) == 1 for reason in refused)


def _png_header(width: int, height: int) -> bytes:
    content = b"\x89PNG\r\n\x1a\n"
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    for chunk in (header, b"IDAT" + zlib.compress(bytes(10**6))):
        content += struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return content


@pytest.mark.parametrize("side", [9460, 30_000, 2**31 - 1])
def test_bombs_are_refused_from_the_header(side: int) -> None:
    start = time.perf_counter()
    with peak_memory() as peak, pytest.raises(Exception, match=r"above the limit|exceeds limit|[Ii]nvalid"):
        decode_image(_png_header(side, side), 8)
    assert peak() < 20 * 2**20
    assert time.perf_counter() - start < 1


def _odd_names(number: int) -> bytes:
    rtl = "rtl\u202e".encode()
    kinds = (b"latin\xe9", b"new\nline", b"esc\x1b[2J", rtl, b"<script>", b"=1+1", b"a'b\"c, d")
    return kinds[number % len(kinds)] + b"%05d.png" % number


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**30)


BAD: tuple[Callable[[Path], object], ...] = (
    lambda path: path.write_bytes(b"no image"),
    Path.touch,
    lambda path: path.write_bytes(valid_image("png")[:60]),
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to("nowhere"),
    os.mkfifo,
    lambda path: path.write_bytes(_png_header(5000, 5000)),
    _huge,
    lambda path: Image.fromarray(np.zeros((4, 4), np.float32)).save(path, "TIFF"),
)


def test_every_bad_file_is_named(tmp_path: Path) -> None:
    good, bad = 1000, 10
    folder = tmp_path / "set"
    folder.mkdir()
    draw = np.random.default_rng(0)
    places = set(draw.choice(good + bad, bad, replace=False).tolist())
    for i in range(good + bad):
        path = folder / os.fsdecode(_odd_names(i))
        if i in places:
            BAD[len([each for each in places if each < i]) % len(BAD)](path)
        else:
            pixels = draw.integers(0, 256, (2, 2, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path, "PNG")
    config = DataConfig(source=str(folder), rows=2, cols=2)
    one = load_dataset(config, cache=tmp_path / "cache")
    assert one.bad_files_csv is not None
    with one.bad_files_csv.open(encoding="utf-8", newline="") as file:
        listed = [row["path"] for row in csv.DictReader(file)]
    named = sum(any(f"{i:05}.png" in path for path in listed) for i in places)
    loaded = len(one.train) + len(one.validation) + len(one.test)
    assert (named, len(listed)) == (bad, bad)
    assert all(path.isprintable() for path in listed)
    assert loaded > 0.99 * good  # but for copies


DAMAGED_EXIF = """
import io
from PIL import Image
from isopix.data.decode import decode_image
content = io.BytesIO()
Image.new("RGB", (8, 8)).save(content, "JPEG", exif=b"Exif\\0\\0II*\\0\\x08\\0\\0\\0\\x05\\0\\x12\\x01")
decode_image(content.getvalue(), 64)
"""


def test_what_pillow_warns_of_is_not_printed() -> None:
    found = subprocess.run([sys.executable, "-c", DAMAGED_EXIF], capture_output=True, text=True, check=True)
    assert found.stderr == ""
