"""How often each of the 2^24 colours occurs: all that a palette, or its error, depends on."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from isopix.core.types import Images

AT_ONCE = 1024  # images counted at a time


@dataclass(frozen=True)
class Histogram:
    """The colours that occur, in ascending order of red, green, blue, and the number of pixels of each."""

    colours: UInt8[Tensor, "n 3"]
    counts: Int[Tensor, " n"]

    @property
    def pixels(self) -> int:
        return int(self.counts.sum())


def count(images: Images | Iterable[Images]) -> Histogram:
    """The histogram of images, or of a stream of batches of any length. Raises ValueError if empty."""
    counts = torch.zeros(2**24, dtype=torch.int64)
    for batch in torch.split(images, AT_ONCE) if isinstance(images, Tensor) else images:
        red, green, blue = batch.cpu().unbind(1)
        index = red.long().mul_(256).add_(green).mul_(256).add_(blue).flatten()
        counts.scatter_add_(0, index, torch.ones_like(index))
    found = counts.nonzero().flatten()
    if len(found) == 0:
        raise ValueError("there are no pixels to count colours of; at least one image is needed")
    colours = torch.stack([found >> 16, found >> 8 & 255, found & 255], dim=1).to(torch.uint8)
    return Histogram(colours, counts[found])
