"""Large files of decoded images, memory-mapped: a selection of them is a list of numbers, and copies none."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from isopix.core.images import ImageSequence, StoredImages
from isopix.core.types import Images
from isopix.storage.arrays import open_memmap

ImageFile = UInt8[Tensor, "_ 3 H W"]  # memory-mapped

COPIED_BYTES = 2**30  # of a file, up to which selections are tensors: they are read faster
CPU = torch.device("cpu")


@dataclass(frozen=True)
class MappedPixels:
    """Images [B 3 H W] of one resolution: image i is `rows[i]` of the file number `numbers[i]`. Indexing
    copies those that are asked for.
    """

    files: tuple[ImageFile, ...]
    numbers: Int[Tensor, " B"]
    rows: Int[Tensor, " B"]
    device = CPU

    @property
    def shape(self) -> torch.Size:
        """[B 3 H W]."""
        return torch.Size([len(self.rows), *self.files[0].shape[1:]])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: slice | Int[Tensor, " n"]) -> Images:
        numbers, rows = self.numbers[index], self.rows[index]
        if len(self.files) == 1:
            return self.files[0][rows]
        images = torch.empty(len(rows), *self.shape[1:], dtype=torch.uint8)
        for number, file in enumerate(self.files):
            own = (numbers == number).nonzero()[:, 0]
            images[own] = file[rows[own]]
        return images

    def select(self, indices: Int[Tensor, " n"]) -> "MappedPixels":
        """Return the images with these indices; none is read."""
        return MappedPixels(self.files, self.numbers[indices], self.rows[indices])

    def concat(self, other: StoredImages) -> "MappedPixels":
        """Return these images and the others, of the same resolution; none is read."""
        assert isinstance(other, MappedPixels), "both are of one store"
        numbers = torch.cat([self.numbers, other.numbers + len(self.files)])
        return MappedPixels((*self.files, *other.files), numbers, torch.cat([self.rows, other.rows]))


def open_images(path: Path) -> ImageSequence:
    """Return the images of a `.npy` file: those of a large one are read where they are indexed."""
    images = open_memmap(path)
    if images.nbytes <= COPIED_BYTES:
        return images
    count = torch.arange(len(images))
    return MappedPixels((images,), torch.zeros_like(count), count)
