"""Array types, the grid of positions, and images on disk that are decoded where they are indexed.

B batch, N positions, D width, Q codes per position, K values of a code, L depth, H W pixels, M selected.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

Images = UInt8[Tensor, "B 3 H W"]
Labels = Int[Tensor, " B"]
Groups = Int[Tensor, " B"]  # the original that each image was made from
Codes = Int[Tensor, "B N Q"]
Tokens = Float[Tensor, "B N D"]
Mask = Bool[Tensor, "B N #Q"]  # True: masked, i.e. not an input of the blocks; [B N 1] masks whole positions
LossMask = Bool[Tensor, "B N #Q"]  # True: in the loss
Logits = Float[Tensor, "B N Q K"]
PositionIndices = Int[Tensor, "B M"]  # indices in raster order, different for each image
SelectedTokens = Float[Tensor, "B M D"]  # tokens at these positions
Scalar = Float[Tensor, ""]


class Grid(NamedTuple):
    """The lattice of positions that a model reads: one per pixel or one per patch, in raster order."""

    rows: int
    cols: int

    @property
    def positions(self) -> int:
        return self.rows * self.cols


@runtime_checkable
class StoredImages(Protocol):
    """Images [B 3 H W] of uint8 on disk, decoded where they are indexed: as a tensor on `device`."""

    @property
    def shape(self) -> torch.Size: ...
    @property
    def device(self) -> torch.device: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: slice | Int[Tensor, " n"]) -> Images: ...

    def select(self, indices: Int[Tensor, " n"]) -> "StoredImages":
        """Return the images with these indices; none is decoded."""

    def concat(self, other: "StoredImages") -> "StoredImages":
        """Return these images and the others; none is decoded."""


ImageSequence = Images | StoredImages
AnyNumber = UInt8[Tensor, "_ 3 H W"] | StoredImages  # of images, also where others are there too


def select_images(images: AnyNumber, indices: Int[Tensor, " n"]) -> AnyNumber:
    """Return the images with these indices, as a tensor only if they are one."""
    return images[indices] if isinstance(images, Tensor) else images.select(indices)


def concat_images(images: AnyNumber, others: AnyNumber) -> AnyNumber:
    """Return both, one after the other, as a tensor if one of them is a tensor."""
    if isinstance(images, Tensor) or isinstance(others, Tensor):
        return torch.cat([images[:], others[:]])
    return images.concat(others)


def image_batches(images: AnyNumber, size: int = 1024) -> Iterator[Images]:
    """Yield the images in order, `size` of them at a time."""
    for start in range(0, len(images), size):
        yield images[start : start + size]
