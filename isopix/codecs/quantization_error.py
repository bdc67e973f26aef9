"""Color histograms, from which palettes are fitted, and the quantization error of a palette on them."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from isopix.codecs.palette import Palette
from isopix.core.progress import track
from isopix.core.types import Grid, Images, ImageSequence, StoredImages, image_batches

BATCH_PIXELS = 2**23  # counted at a time


@dataclass(frozen=True)
class ColorHistogram:
    """The colors that occur, sorted by red, green, blue, and the number of pixels of each."""

    colors: UInt8[Tensor, "n 3"]
    counts: Int[Tensor, " n"]

    @property
    def num_pixels(self) -> int:
        return int(self.counts.sum())


def count_colors(images: ImageSequence | Iterable[Images]) -> ColorHistogram:
    """Return the histogram of images, or of an iterable of batches. Raises ValueError if there are none."""
    counts = torch.zeros(2**24, dtype=torch.int64)
    for batch in _batches(images):
        red, green, blue = batch.cpu().unbind(1)
        index = red.long().mul_(256).add_(green).mul_(256).add_(blue).flatten()
        counts += torch.bincount(index, minlength=len(counts))
    found = counts.nonzero().flatten()
    if len(found) == 0:
        raise ValueError("there are no pixels to count colors of; at least one image is needed")
    colors = torch.stack([found >> 16, found >> 8 & 255, found & 255], dim=1).to(torch.uint8)
    return ColorHistogram(colors, counts[found])


def _batches(images: ImageSequence | Iterable[Images]) -> Iterator[Images]:
    """Yield batches of images, with the progress of a known number."""
    if not isinstance(images, Tensor | StoredImages):
        yield from images
        return
    with track("counting colors of images", len(images)) as count:
        rows, cols = images.shape[2:]
        done = 0
        for batch in image_batches(images, max(1, BATCH_PIXELS // (rows * cols))):
            yield batch
            done += len(batch)
            count(done)


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
    palette: Palette, images: ImageSequence | Iterable[Images] | ColorHistogram
) -> QuantizationError:
    """Return the error on images, an iterable of batches, or their histogram; at least one image."""
    histogram = images if isinstance(images, ColorHistogram) else count_colors(images)
    codes, errors = assign_codes(palette, histogram)
    counts = torch.zeros(palette.vocab_size, dtype=torch.int64).scatter_add_(0, codes, histogram.counts)
    rmse = math.sqrt(int((errors * histogram.counts).sum()) / (3 * histogram.num_pixels))
    return QuantizationError(counts, rmse, 20 * math.log10(255 / rmse) if rmse else None)


def assign_codes(palette: Palette, histogram: ColorHistogram) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Return the code of every color that occurs, and its squared error summed over the channels."""
    images = histogram.colors.T[None, :, None, :].to(palette.color_bits.device)
    codes = palette.encode(images)
    decoded = palette.decode(codes, Grid(1, len(histogram.counts)))
    errors = (images.int() - decoded.int()).square().sum(1)
    return codes.flatten().cpu(), errors.flatten().long().cpu()
