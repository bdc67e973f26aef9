"""Image sequences: a tensor of images, or images on disk that are decoded where they are indexed."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from isopix.core.types import Images

BATCH_SIZE = 1024  # images in memory at a time


@runtime_checkable
class StoredImages(Protocol):
    """Images [B 3 H W] of uint8 on disk."""

    @property
    def shape(self) -> torch.Size:
        """That of the tensor of all images."""

    @property
    def device(self) -> torch.device:
        """Where the tensors are that indexing returns."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: slice | Int[Tensor, " n"]) -> Images:
        """Return the images of a slice, or with these indices, as a tensor."""

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


def image_batches(images: AnyNumber, size: int = BATCH_SIZE) -> Iterator[Images]:
    """Yield the images in order, `size` of them at a time."""
    for start in range(0, len(images), size):
        yield images[start : start + size]
