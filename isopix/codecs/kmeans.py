"""Fit a palette to images: k-means over their colors, weighted by how often each occurs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types
from torch import Tensor

from isopix.codecs.moving_centers import MovingCenters
from isopix.codecs.palette import Palette, check_num_colors
from isopix.codecs.quantization_error import (
    ColorHistogram,
    QuantizationError,
    assign_codes,
    count_colors,
    quantization_error,
)
from isopix.core.images import ImageSequence
from isopix.core.progress import long_step
from isopix.core.random import generator
from isopix.core.types import Grid, Images

MAX_EXACT_COLORS = 65_536  # distinct colors up to which each one is a point of its own
COARSE_LEVELS = 64  # per channel above that; the point of a bin is the mean of its pixels
MAX_EXACT_STEPS = 30  # of k-means on all colors, after it has converged on bins
MIN_DECREASE = 2e-5  # of the squared error, relative, for another such step: 1e-5 of the RMSE
OVERSHOOT = 0.9  # of a step beyond the means; below 1 the error still decreases
PIXEL = Grid(1, 1)


@dataclass(frozen=True)
class PaletteFit:
    """A palette and its error on the images that it was fitted to."""

    colors: Float[Tensor, "K 3"]  # whole levels of 0..255, from dark to light
    iterations: int  # of k-means, on bins and on all colors; 0 if every distinct color is in the palette
    error: QuantizationError


def fit_palette(
    images: ImageSequence | Iterable[Images] | ColorHistogram, num_colors: int = 512, *, seed: int = 0
) -> PaletteFit:
    """Return the colors of least squared error that k-means (Lloyd, k-means++) finds.

    More than 65,536 distinct colors are first averaged in bins; from the centers of the bins, k-means then
    continues on the colors themselves.
    Centers are rounded to whole levels, so that every color is its own nearest color after decoding; a center
    that then equals another is replaced by the color with the largest error. The same images, in any order
    and batches, and the same seed give the same colors. Raises ValueError if the images have fewer than
    `num_colors` distinct colors.
    """
    check_num_colors(num_colors)
    histogram = images if isinstance(images, ColorHistogram) else count_colors(images)
    distinct = len(histogram.counts)
    if num_colors > distinct:
        raise ValueError(
            f"{num_colors} colors requested, but the images have only {distinct} distinct colors"
        )
    if num_colors == distinct:
        centers, iterations = histogram.colors, 0
    else:
        centers, iterations = _cluster(histogram, num_colors, seed)
    colors = _by_lightness(_fill(torch.unique(centers, dim=0), histogram, num_colors)).float()
    return PaletteFit(colors, iterations, quantization_error(Palette(colors, PIXEL), histogram))


def _cluster(histogram: ColorHistogram, num_colors: int, seed: int) -> tuple[UInt8[Tensor, "K 3"], int]:
    from sklearn.cluster import KMeans  # noqa: PLC0415  its import takes a second

    points, weights = _points(histogram, num_colors)
    start = int(torch.randint(2**31, (), generator=generator(seed, "palette")))
    # One thread: scikit-learn adds the sums of threads in the order in which they finish.
    step = long_step(f"k-means of {len(points):,} colors", None)
    with threadpool_limits(1), step:
        means = KMeans(num_colors, n_init=1, random_state=start).fit(
            points.numpy(), sample_weight=weights.numpy()
        )
    centers, steps = torch.from_numpy(means.cluster_centers_), 0
    if len(points) < len(histogram.counts):
        centers, steps = _continue_exactly(centers, histogram)
    return centers.round().to(torch.uint8), int(means.n_iter_) + steps


def _continue_exactly(
    centers: Float[Tensor, "K 3"], histogram: ColorHistogram
) -> tuple[Float[Tensor, "K 3"], int]:
    """Return the centers after Lloyd steps on all colors, and the number of steps.

    Steps go beyond the means (over-relaxation), so that fewer of them are needed.
    """
    moving, weights = MovingCenters(histogram.colors), histogram.counts.double()
    total = sum(float(weights @ channel.double().square()) for channel in histogram.colors.T)
    last, steps = math.inf, 0
    while True:
        codes = moving.nearest(centers)
        # Sums of whole numbers below 2^53 are exact in float64, in any order.
        counts = torch.bincount(codes, weights, len(centers))[:, None]
        sums = [torch.bincount(codes, channel * weights, len(centers)) for channel in histogram.colors.T]
        means = torch.where(counts > 0, torch.stack(sums, dim=1) / counts, centers)
        error = total - float((counts * means.square()).sum())
        steps += 1
        if steps == MAX_EXACT_STEPS or error > (1 - MIN_DECREASE) * last:
            return means, steps
        centers, last = (means + OVERSHOOT * (means - centers)).clamp(0, 255), error


def _points(histogram: ColorHistogram, num_colors: int) -> tuple[Float[Tensor, "n 3"], Float[Tensor, " n"]]:
    """Return weighted points: the distinct colors, or the means of coarser bins if there are enough bins."""
    exact = histogram.colors.double()
    if len(exact) <= MAX_EXACT_COLORS:
        return exact, histogram.counts.double()
    red, green, blue = (histogram.colors.long() * COARSE_LEVELS // 256).unbind(1)
    bins, member = torch.unique((red * COARSE_LEVELS + green) * COARSE_LEVELS + blue, return_inverse=True)
    if len(bins) < num_colors:
        return exact, histogram.counts.double()
    weights = torch.zeros(len(bins), dtype=torch.float64).index_add_(0, member, histogram.counts.double())
    sums = torch.zeros(len(bins), 3, dtype=torch.float64)
    sums.index_add_(0, member, exact * histogram.counts[:, None])
    return sums / weights[:, None], weights


def _fill(distinct: UInt8[Tensor, "k 3"], histogram: ColorHistogram, num_colors: int) -> UInt8[Tensor, "K 3"]:
    """Add the colors of the images that contribute most to the error until there are `num_colors`."""
    if len(distinct) == num_colors:
        return distinct
    _, errors = assign_codes(Palette(distinct.float(), PIXEL), histogram)
    worst = (errors * histogram.counts).argsort(descending=True, stable=True)
    return torch.cat([distinct, histogram.colors[worst[: num_colors - len(distinct)]]])


def _by_lightness(colors: UInt8[Tensor, "K 3"]) -> UInt8[Tensor, "K 3"]:
    """Sort from dark to light by Rec. 601 luma, then by red, green, blue."""
    colors = torch.unique(colors, dim=0)
    luma = colors.long() @ torch.tensor([299, 587, 114])
    return colors[luma.argsort(stable=True)]
