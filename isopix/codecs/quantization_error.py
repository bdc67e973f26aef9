"""What a palette loses: the error of images shown in its colours, and how often each colour is used."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from isopix.codecs.color_histogram import Histogram, count
from isopix.codecs.palette import Palette
from isopix.core.types import Grid, Images

RARE = 1e-5  # a colour of fewer than one pixel in 100,000 is called rare


@dataclass(frozen=True)
class Fidelity:
    """Errors are those of pixels as `decode` shows them, over all pixels and the three channels."""

    counts: Int[Tensor, " K"]  # pixels of each colour
    rmse: float  # levels of 0..255
    psnr: float | None  # dB, 20 log10(255 / rmse); None where there is no error

    @property
    def pixels(self) -> int:
        return int(self.counts.sum())

    @property
    def dead(self) -> int:
        """Colours that no pixel uses."""
        return int((self.counts == 0).sum())

    @property
    def rare(self) -> int:
        """Colours that some pixels use, but fewer than RARE of them."""
        return int((self.counts < RARE * self.pixels).sum()) - self.dead


def measure(palette: Palette, images: Images | Iterable[Images] | Histogram) -> Fidelity:
    """The fidelity of a palette to images, a stream of batches, or their histogram (not empty)."""
    histogram = images if isinstance(images, Histogram) else count(images)
    codes, errors = assign(palette, histogram)
    counts = torch.zeros(palette.vocab_size, dtype=torch.int64).scatter_add_(0, codes, histogram.counts)
    rmse = math.sqrt(int((errors * histogram.counts).sum()) / (3 * histogram.pixels))
    return Fidelity(counts, rmse, 20 * math.log10(255 / rmse) if rmse else None)


def assign(palette: Palette, histogram: Histogram) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """The code of every colour that occurs, and its squared error summed over the channels."""
    images = histogram.colours.T[None, :, None, :].to(palette.fixed.device)
    codes = palette.encode(images)
    shown = palette.decode(codes, Grid(1, len(histogram.counts)))
    errors = (images.int() - shown.int()).square().sum(1)
    return codes.flatten().cpu(), errors.flatten().long().cpu()
