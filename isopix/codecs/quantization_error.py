"""Quantization error of a palette on images, and how often each color is used."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from isopix.codecs.color_histogram import ColorHistogram, count_colors
from isopix.codecs.palette import Palette
from isopix.core.types import Grid, Images

RARE_FRACTION = 1e-5  # of the pixels, below which a color is called rare


@dataclass(frozen=True)
class QuantizationError:
    """The error of decoded pixels, over all pixels and the three channels."""

    counts: Int[Tensor, " K"]  # pixels of each color
    rmse: float  # levels of 0..255
    psnr: float | None  # dB, 20 log10(255 / rmse); None if the error is zero

    @property
    def num_pixels(self) -> int:
        return int(self.counts.sum())

    @property
    def num_unused(self) -> int:
        """Number of colors that no pixel uses."""
        return int((self.counts == 0).sum())

    @property
    def num_rare(self) -> int:
        """Number of colors that some pixels use, but fewer than RARE_FRACTION of them."""
        return int((self.counts < RARE_FRACTION * self.num_pixels).sum()) - self.num_unused


def quantization_error(
    palette: Palette, images: Images | Iterable[Images] | ColorHistogram
) -> QuantizationError:
    """Return the error on images, an iterable of batches, or their histogram; at least one image."""
    histogram = images if isinstance(images, ColorHistogram) else count_colors(images)
    codes, errors = assign_codes(palette, histogram)
    counts = torch.zeros(palette.vocab_size, dtype=torch.int64).scatter_add_(0, codes, histogram.counts)
    rmse = math.sqrt(int((errors * histogram.counts).sum()) / (3 * histogram.num_pixels))
    return QuantizationError(counts, rmse, 20 * math.log10(255 / rmse) if rmse else None)


def assign_codes(palette: Palette, histogram: ColorHistogram) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Return the code of every color that occurs, and its squared error summed over the channels."""
    images = histogram.colors.T[None, :, None, :].to(palette.fixed.device)
    codes = palette.encode(images)
    decoded = palette.decode(codes, Grid(1, len(histogram.counts)))
    errors = (images.int() - decoded.int()).square().sum(1)
    return codes.flatten().cpu(), errors.flatten().long().cpu()
