"""Stores: images in files, as pixels or losslessly encoded, read or decoded where they are indexed."""

import io
import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy.typing import NDArray
from PIL import Image, features
from torch import Tensor

from isopix.core.types import Images
from isopix.data.decode import NEVER_REDUCED, decode_image, failure_reason, is_jpeg

StoreName = Literal["pixels", "encoded"]
Pixels = NDArray[np.uint8]  # [3 H W]
Ends = NDArray[np.int64]
# Returns an image as it is kept; the bytes are a file that decodes to these pixels, if there is one.
Encode = Callable[[Pixels, bytes | None], NDArray[np.uint8]]

COPIED_BYTES = 2**30  # of a file of pixels, up to which selections are tensors: they are read faster
MAX_WEBP_SIDE = 16383  # pixels, of the format
# Of photographs at 128 to 224 pixels, on one core: 0.37 to 0.49 of the pixels' bytes and 800 to 2,500 images
# decoded a second; PNG at level 6 has 0.43 to 0.56, and 630 to 1,800. Higher methods save a tenth to a fifth
# more, and take four times as long to write.
WEBP = {"format": "WEBP", "lossless": True, "method": 0, "quality": 20}
PNG = {"format": "PNG", "compress_level": 6}
CPU = torch.device("cpu")


def encode_pixels(pixels: Pixels, source: bytes | None) -> NDArray[np.uint8]:
    """Return `source` if it is a JPEG file, or else a lossless WebP, or a PNG where WebP is not possible."""
    if source is not None and is_jpeg(source):
        return np.frombuffer(source, np.uint8)
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    webp = max(image.size) <= MAX_WEBP_SIDE and features.check("webp")
    content = io.BytesIO()
    image.save(content, **(WEBP if webp else PNG))  # type: ignore[arg-type]  # options of the format
    return np.frombuffer(content.getvalue(), np.uint8)


ENCODERS: dict[StoreName, Encode] = {"pixels": lambda pixels, source: pixels, "encoded": encode_pixels}


class EncodedFile:
    """Encoded images one after the other; image i ends at byte `ends[i]`. Not memory-mapped: all that was
    ever read would count as memory of this process.
    """

    def __init__(self, path: Path, ends: Ends):
        self.path, self.ends = path, ends
        self.file = path.open("rb", buffering=0)
        weakref.finalize(self, self.file.close)

    def __reduce__(self) -> tuple[Any, ...]:
        return EncodedFile, (self.path, self.ends)

    def __getitem__(self, i: int) -> Pixels:
        start, end = int(self.ends[i - 1]) if i else 0, int(self.ends[i])
        try:
            content = os.pread(self.file.fileno(), end - start, start)
            rgb = decode_image(content, NEVER_REDUCED, max_pixels=NEVER_REDUCED)
            return np.asarray(rgb).transpose(2, 0, 1)  # a view
        except Exception as error:  # damaged images raise many types
            raise RuntimeError(
                f"an image in {self.path} is damaged ({failure_reason(error)}); delete {self.path.parent}, "
                "which is then written anew"
            ) from error


ImageFile = UInt8[Tensor, " _"] | EncodedFile


@dataclass(frozen=True)
class FileImages:
    """Images in files: image i is number `rows[i]` of the encoded file `numbers[i]`, or [3 H W] from byte
    `rows[i]` of that file of pixels. Row -1 is not read.

    Rows and shapes stay on the CPU, so that planning a batch does not wait for the device.
    """

    files: tuple[ImageFile, ...]
    numbers: Int[Tensor, " B"]
    rows: Int[Tensor, " B"]
    heights: Int[Tensor, " B"]
    widths: Int[Tensor, " B"]
    size: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> torch.Size:
        assert self.size is not None, "they are of one size"
        return torch.Size([len(self), 3, *self.size])

    def __getitem__(self, index: slice | Int[Tensor, " n"]) -> Images:
        chosen = self.select(index)
        images = np.zeros(chosen.shape, np.uint8)
        for i, image in enumerate(chosen.images()):
            if image is not None:
                images[i] = image
        return torch.from_numpy(images)

    def images(self) -> Iterator[Pixels | None]:
        """Yield each image as uint8 [3 H W]; None for one that is not to be read."""
        places = (each.tolist() for each in (self.numbers, self.rows, self.heights, self.widths))
        for number, row, height, width in zip(*places, strict=True):
            file = self.files[number]
            if row < 0:
                yield None
            elif isinstance(file, Tensor):
                yield file[row : row + 3 * height * width].view(3, height, width).numpy()
            else:
                yield file[row]

    @property
    def is_decoded(self) -> bool:
        """Whether the pixels are in memory, or mapped into it."""
        return not isinstance(self.files[0], EncodedFile)

    def select(self, indices: slice | Int[Tensor, " n"]) -> "FileImages":
        chosen: dict[str, Any] = {name: tensor[indices] for name, tensor in self._tensors().items()}
        return replace(self, **chosen)

    def concat(self, other: "FileImages") -> "FileImages":
        own, others = self._tensors(), other._tensors() | {"numbers": other.numbers + len(self.files)}
        joined: dict[str, Any] = {name: torch.cat([own[name], others[name]]) for name in own}
        return replace(self, files=(*self.files, *other.files), **joined)

    def only(self, indices: Int[Tensor, " n"]) -> "FileImages":
        """Return these images, of which only those with these indices will be read."""
        rows = torch.full_like(self.rows, -1)
        rows[indices] = self.rows[indices]
        return replace(self, rows=rows)

    def to(self, device: torch.device) -> "FileImages":
        """Return these images with their own pixels alone on the device; encoded ones stay on the disk."""
        return self if self.device == device or not self.is_decoded else self.packed(device)

    def packed(self, device: torch.device) -> "FileImages":
        """Return a copy of these decoded images on the device, in their order, in one file without gaps."""
        pixels = torch.empty(int(self.sizes.sum()), dtype=torch.uint8, device=device)
        for image, place in zip(self.images(), torch.split(pixels, self.sizes.tolist()), strict=True):
            place.copy_(torch.from_numpy(image).flatten())
        rows = self.sizes.cumsum(0) - self.sizes
        return replace(self, files=(pixels,), numbers=torch.zeros_like(self.numbers), rows=rows)

    @property
    def device(self) -> torch.device:
        file = self.files[0]
        return file.device if isinstance(file, Tensor) else CPU

    @property
    def sizes(self) -> Int[Tensor, " B"]:
        return 3 * self.heights * self.widths

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}


def open_images(path: Path, ends: Ends | None, count: int, size: tuple[int, int]) -> Images | FileImages:
    """Return the images of a file of one resolution; encoded ones end at `ends`."""
    found = replace(open_full(path, ends, torch.tensor([size]).expand(count, 2)), size=size)
    [file] = found.files
    return file.view(-1, 3, *size) if isinstance(file, Tensor) and file.nbytes <= COPIED_BYTES else found


def open_full(path: Path, ends: Ends | None, shapes: Int[Tensor, "B 2"]) -> FileImages:
    """Return the whole images of a file, of these heights and widths; encoded ones end at `ends`."""
    heights, widths = shapes.unbind(1)
    sizes, count = 3 * heights * widths, torch.arange(len(shapes))
    rows = sizes.cumsum(0) - sizes if ends is None else count
    file = _mapped(path) if ends is None else EncodedFile(path, ends)
    return FileImages((file,), torch.zeros_like(count), rows, heights, widths)


def _mapped(path: Path) -> UInt8[Tensor, " n"]:
    """Map a file into memory copy-on-write: what is used is read, and changes never reach the file."""
    if not path.stat().st_size:
        return torch.empty(0, dtype=torch.uint8)
    return torch.from_numpy(np.memmap(path, np.uint8, mode="c"))
