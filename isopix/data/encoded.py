"""Encoded images in the place of decoded ones: at one resolution, or whole ones of different shapes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from isopix.core.images import StoredImages
from isopix.core.types import Images
from isopix.data.encoded_file import EncodedFile

CPU = torch.device("cpu")


@dataclass(frozen=True)
class EncodedImages:
    """Encoded images of one resolution, [B 3 rows cols] once decoded: indexing decodes, and nothing is kept.

    Raises RuntimeError for a damaged image.
    """

    encoded: EncodedFile
    rows: int
    cols: int
    device = CPU

    @property
    def shape(self) -> torch.Size:
        """[B 3 rows cols]."""
        return torch.Size([len(self.encoded), 3, self.rows, self.cols])

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: slice | Int[Tensor, " n"]) -> Images:
        chosen = self.encoded.select(index)
        images = np.zeros((len(chosen), *self.shape[1:]), dtype=np.uint8)
        for i, image in enumerate(chosen.decode()):
            if image is not None:
                images[i] = image
        return torch.from_numpy(images)

    def only(self, indices: Int[Tensor, " n"]) -> "EncodedImages":
        """Return these images, of which only those with these indices are decoded; the others are black."""
        return replace(self, encoded=self.encoded.only(indices))

    def select(self, indices: Int[Tensor, " n"]) -> "EncodedImages":
        """Return the images with these indices; none is decoded."""
        return EncodedImages(self.encoded.select(indices), self.rows, self.cols)

    def concat(self, other: StoredImages) -> "EncodedImages":
        """Return these images and the others, of the same resolution; none is decoded."""
        assert isinstance(other, EncodedImages), "both are of one store"
        assert self.shape[1:] == other.shape[1:], "both are of one resolution"
        return EncodedImages(self.encoded.concat(other.encoded), self.rows, self.cols)


@dataclass(frozen=True)
class EncodedFullResolution:
    """Encoded whole images of different shapes."""

    encoded: EncodedFile
    heights: Int[Tensor, " B"]
    widths: Int[Tensor, " B"]
    device = CPU

    def select(self, indices: Int[Tensor, " n"]) -> "EncodedFullResolution":
        """Return the images with these indices; none is decoded."""
        return EncodedFullResolution(
            self.encoded.select(indices), self.heights[indices], self.widths[indices]
        )

    def concat(self, other: "EncodedFullResolution") -> "EncodedFullResolution":
        """Return these images followed by the others; none is decoded."""
        heights, widths = (
            torch.cat(pair) for pair in ((self.heights, other.heights), (self.widths, other.widths))
        )
        return EncodedFullResolution(self.encoded.concat(other.encoded), heights, widths)

    def only(self, indices: Int[Tensor, " n"]) -> "EncodedFullResolution":
        """Return these images, of which only those with these indices are decoded."""
        return replace(self, encoded=self.encoded.only(indices))

    def to(self, device: torch.device) -> "EncodedFullResolution":
        """Return these images: encoded ones stay on the disk."""
        return self

    def images(self) -> Iterator[NDArray[np.uint8] | None]:
        """Decode and yield each image as uint8 [3 H W]; None for one that is not to be decoded. Raises
        RuntimeError for a damaged one.
        """
        return self.encoded.decode()

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels of all images, once decoded."""
        return int((3 * self.heights * self.widths).sum())
