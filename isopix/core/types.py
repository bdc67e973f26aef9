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


ImageSequence = Images | StoredImages
AnyNumber = UInt8[Tensor, "_ 3 H W"] | StoredImages  # of images, also where others are there too


def image_batches(images: AnyNumber, size: int = 1024) -> Iterator[Images]:
    """Yield the images in order, `size` of them at a time."""
    for start in range(0, len(images), size):
        yield images[start : start + size]
