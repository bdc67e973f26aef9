"""Full-resolution images: whole images of different shapes, for crops that are drawn anew at every step."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class FullResolution:
    """Whole images of different shapes, one after the other; image i is [3 H W] from `starts[i]` on.

    Starts and shapes stay on the CPU wherever the pixels are, so that planning a batch does not wait for the
    device.
    """

    pixels: UInt8[Tensor, " P"]
    starts: Int[Tensor, " B"]
    heights: Int[Tensor, " B"]
    widths: Int[Tensor, " B"]

    def select(self, indices: Int[Tensor, " n"]) -> "FullResolution":
        """Return the images with these indices; the pixels are shared."""
        return FullResolution(self.pixels, self.starts[indices], self.heights[indices], self.widths[indices])

    def images(self) -> Iterator[Pixels]:
        """Yield each image as uint8 [3 H W]; the pixels are shared."""
        for start, *sides in zip(*map(Tensor.tolist, (self.starts, self.heights, self.widths)), strict=True):
            yield self.pixels[start : start + 3 * prod(sides)].view(3, *sides).numpy()

    def concat(self, other: "FullResolution") -> "FullResolution":
        """Return a copy of these images followed by the others."""
        starts = torch.cat([self.starts, other.starts + len(self.pixels)])
        pixels = torch.cat([self.pixels, other.pixels])
        heights = torch.cat([self.heights, other.heights])
        return FullResolution(pixels, starts, heights, torch.cat([self.widths, other.widths]))

    def to(self, device: torch.device) -> "FullResolution":
        """Return these images with their own pixels alone on the device; shared if they are there already."""
        return self if self.pixels.device == device else self.packed(device)

    def packed(self, device: torch.device) -> "FullResolution":
        """Return a copy of these images on the device, in their order and without gaps."""
        ends = self.sizes.cumsum(0)
        pixels = torch.empty(self.nbytes, dtype=torch.uint8, device=device)
        offsets = ends - self.sizes - self.starts  # images with the same offset are copied at once
        runs = torch.unique_consecutive(offsets, return_counts=True)[1].cumsum(0).tolist()
        for first, last in pairwise([0, *runs]):
            stop, offset = int(ends[last - 1]), int(offsets[first])
            start = int(self.starts[first]) + offset
            pixels[start:stop] = self.pixels[start - offset : stop - offset]
        return FullResolution(pixels, ends - self.sizes, self.heights, self.widths)

    @property
    def device(self) -> torch.device:
        """Where the pixels are."""
        return self.pixels.device

    @property
    def sizes(self) -> Int[Tensor, " B"]:
        """Bytes of each image."""
        return 3 * self.heights * self.widths

    @property
    def nbytes(self) -> int:
        """Bytes of all images."""
        return int(self.sizes.sum())
