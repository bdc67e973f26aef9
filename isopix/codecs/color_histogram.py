"""Color histogram: how often each of the 2^24 colors occurs, which is all that fitting a palette needs."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from isopix.core.types import Images

BATCH_SIZE = 1024  # images counted at a time


@dataclass(frozen=True)
class ColorHistogram:
    """The colors that occur, sorted by red, green, blue, and the number of pixels of each."""

    colors: UInt8[Tensor, "n 3"]
    counts: Int[Tensor, " n"]

    @property
    def num_pixels(self) -> int:
        return int(self.counts.sum())


def count_colors(images: Images | Iterable[Images]) -> ColorHistogram:
    """Return the histogram of images, or of an iterable of batches. Raises ValueError if there are none."""
    counts = torch.zeros(2**24, dtype=torch.int64)
    for batch in torch.split(images, BATCH_SIZE) if isinstance(images, Tensor) else images:
        red, green, blue = batch.cpu().unbind(1)
        index = red.long().mul_(256).add_(green).mul_(256).add_(blue).flatten()
        counts.scatter_add_(0, index, torch.ones_like(index))
    found = counts.nonzero().flatten()
    if len(found) == 0:
        raise ValueError("there are no pixels to count colors of; at least one image is needed")
    colors = torch.stack([found >> 16, found >> 8 & 255, found & 255], dim=1).to(torch.uint8)
    return ColorHistogram(colors, counts[found])
