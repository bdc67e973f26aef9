"""Encoded images: one file of their bytes, one after the other, and an index of where each begins."""

import io
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from PIL import Image, features
from torch import Tensor

from isopix.data.decode import NEVER_REDUCED, decode_image, failure_reason, is_jpeg
from isopix.storage.arrays import NpyWriter, open_memmap
from isopix.storage.growing_folder import GrowingFolder

MAX_WEBP_SIDE = 16383  # pixels, of the format
# Of photographs at 128 to 224 pixels, on one core: 0.37 to 0.49 of the pixels' bytes and 800 to 2,500 images
# decoded a second; PNG at level 6 has 0.43 to 0.56, and 630 to 1,800. Higher methods save a tenth to a fifth
# more, and take four times as long to write.
WEBP = {"format": "WEBP", "lossless": True, "method": 0, "quality": 20}
PNG = {"format": "PNG", "compress_level": 6}
FORMATS = ("WEBP", "PNG")


def encode_pixels(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return uint8 [3 H W] as the bytes of a lossless WebP, or of a PNG where WebP is not possible."""
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    webp = max(image.size) <= MAX_WEBP_SIDE and features.check("webp")
    content = io.BytesIO()
    image.save(content, **(WEBP if webp else PNG))  # type: ignore[arg-type]  # options of the format
    return np.frombuffer(content.getvalue(), np.uint8)


def decode_pixels(content: bytes) -> NDArray[np.uint8]:
    """Return uint8 [3 H W] of what `encode_pixels` returned, or of a JPEG file. Raises what Pillow raises."""
    if is_jpeg(content):
        return _planes(decode_image(content, NEVER_REDUCED))
    with Image.open(io.BytesIO(content), formats=FORMATS) as image:
        return _planes(image.convert("RGB"))


class EncodedWriter:
    """A file of encoded images, and beside it the index: `name.bin` and `name.offsets.npy` [B + 1]."""

    def __init__(self, folder: GrowingFolder, name: str):
        self.file, index = folder.file(_content(name)), folder.file(_index(name))
        is_new = index.tell() == 0
        self.offsets = NpyWriter(index, (), np.int64)
        if is_new:
            self.offsets.append(0)

    def append(self, encoded: NDArray[np.uint8]) -> None:
        """Write one image."""
        self.file.write(encoded.data)
        self.offsets.append(self.file.tell())

    def finish(self) -> None:
        """Complete the index."""
        self.offsets.finish()


class RandomAccessFile:
    """A file that is read at any place; pickled as its path, so that a worker process opens it anew.

    It is not memory-mapped, as all that was ever read would count as memory of this process.
    """

    def __init__(self, path: Path):
        self.path = path
        self.file = path.open("rb", buffering=0)
        weakref.finalize(self, self.file.close)

    def __reduce__(self) -> tuple[type["RandomAccessFile"], tuple[Path]]:
        return RandomAccessFile, (self.path,)

    def read(self, start: int, size: int) -> bytes:
        """Return `size` bytes from `start` on, or what there is of them."""
        if hasattr(os, "pread"):  # processes that were forked share the position of `seek`
            return os.pread(self.file.fileno(), size, start)
        self.file.seek(start)
        return self.file.read(size)


@dataclass(frozen=True)
class EncodedFile:
    """Encoded images: image i is `sizes[i]` bytes from `starts[i]` on of the file number `numbers[i]`."""

    files: tuple[RandomAccessFile, ...]
    numbers: Int[Tensor, " B"]
    starts: Int[Tensor, " B"]
    sizes: Int[Tensor, " B"]

    @classmethod
    def open(cls, folder: Path, name: str) -> "EncodedFile":
        """Open what an `EncodedWriter` has written."""
        offsets = open_memmap(folder / _index(name))
        files = (RandomAccessFile(folder / _content(name)),)
        return cls(files, torch.zeros_like(offsets[1:]), offsets[:-1], offsets.diff())

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, index: slice | Int[Tensor, " n"]) -> "EncodedFile":
        """Return the images of a slice, or with these indices; the files are shared."""
        return EncodedFile(self.files, self.numbers[index], self.starts[index], self.sizes[index])

    def concat(self, other: "EncodedFile") -> "EncodedFile":
        """Return these images and the others."""
        numbers = torch.cat([self.numbers, other.numbers + len(self.files)])
        starts, sizes = torch.cat([self.starts, other.starts]), torch.cat([self.sizes, other.sizes])
        return EncodedFile((*self.files, *other.files), numbers, starts, sizes)

    def only(self, indices: Int[Tensor, " n"]) -> "EncodedFile":
        """Return the images, of which only those with these indices will be decoded."""
        sizes = torch.zeros_like(self.sizes)
        sizes[indices] = self.sizes[indices]
        return replace(self, sizes=sizes)

    def decode(self) -> Iterator[NDArray[np.uint8] | None]:
        """Yield each image as uint8 [3 H W], None if it is not to be decoded. Raises RuntimeError for one
        that is damaged.
        """
        places = zip(self.numbers.tolist(), self.starts.tolist(), self.sizes.tolist(), strict=True)
        for number, start, size in places:
            if not size:
                yield None
                continue
            file = self.files[number]
            try:
                pixels = decode_pixels(file.read(start, size))
            except Exception as error:  # damaged images raise many types
                raise RuntimeError(
                    f"an image in {file.path} is damaged ({failure_reason(error)}); delete "
                    f"{file.path.parent}, which is then written anew"
                ) from error
            yield pixels


def _planes(image: Image.Image) -> NDArray[np.uint8]:
    pixels: NDArray[np.uint8] = np.asarray(image)
    return pixels.transpose(2, 0, 1)  # a view


def _content(name: str) -> str:
    return f"{name}.bin"


def _index(name: str) -> str:
    return f"{name}.offsets.npy"
