"""Fit a palette to images: k-means over their colors, weighted by how often each occurs; and its error."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int, UInt8
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types
from torch import Tensor

from isopix.codecs.nearest_color import MovingCenters, Pixels, Points
from isopix.codecs.palette import Palette, check_num_colors
from isopix.codecs.results import SplitError
from isopix.core.device import reuse_freed_memory
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.types import Grid, ImageSequence, image_batches

COARSE_LEVELS = (32, 64, 128)  # per channel, of the bins of the first steps; all colors have 256
POINTS_PER_COLOR = 8  # bins for each color of the palette, for steps on bins
MAX_STEPS = 20  # of k-means on the bins of one size
MAX_EXACT_STEPS = 300  # on all colors
MAX_LAST_STEPS = 10  # on all colors after steps on bins
MIN_DECREASE = 1e-5  # of the squared error, relative, for another step: 5e-6 of the RMSE
BATCH_PIXELS = 2**23  # counted at a time
RARE_FRACTION = 1e-5  # of the pixels, below which a color is called rare
OVERSHOOT = 0.9  # of a step beyond the means; below 1 the error still decreases
PIXEL = Grid(1, 1)
Centers = Float[Tensor, "K 3"]


@dataclass(frozen=True)
class ColorHistogram:
    """The colors that occur, sorted by red, green, blue, and the number of pixels of each."""

    colors: UInt8[Tensor, "n 3"]
    counts: Int[Tensor, " n"]


def count_colors(images: ImageSequence) -> ColorHistogram:
    """Return the histogram of images."""
    counts, size = torch.zeros(2**24, dtype=torch.int64), max(1, BATCH_PIXELS // images.shape[2:].numel())
    with track("counting colors of images", len(images)) as count:
        for number, batch in enumerate(image_batches(images, size)):
            red, green, blue = batch.cpu().unbind(1)
            index = red.long().mul_(256).add_(green).mul_(256).add_(blue).flatten()
            counts += torch.bincount(index, minlength=len(counts))
            count(number * size + len(batch))
    found = counts.nonzero().flatten()
    colors = torch.stack([found >> 16, found >> 8 & 255, found & 255], dim=1).to(torch.uint8)
    return ColorHistogram(colors, counts[found])


def quantization_error(palette: Palette, images: ImageSequence | ColorHistogram) -> SplitError:
    """Return the error on images, at least one, or their histogram.

    The error is over all decoded pixels and channels. Fewer than RARE_FRACTION of them use a rare color.
    """
    histogram = images if isinstance(images, ColorHistogram) else count_colors(images)
    codes, errors = assign_codes(palette, histogram)
    counts = torch.zeros(palette.vocab_size, dtype=torch.int64).scatter_add_(0, codes, histogram.counts)
    pixels, unused = int(histogram.counts.sum()), int((counts == 0).sum())
    rmse = math.sqrt(int((errors * histogram.counts).sum()) / (3 * pixels))
    psnr = 20 * math.log10(255 / rmse) if rmse else None
    rare = int((counts < RARE_FRACTION * pixels).sum()) - unused
    return SplitError(pixels, rmse, psnr, unused, rare)


def assign_codes(palette: Palette, histogram: ColorHistogram) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Return the code of every color that occurs, and its squared error summed over the channels."""
    images = histogram.colors.T[None, :, None, :].to(palette.color_bits.device)
    codes = palette.encode(images)
    decoded = palette.decode(codes, Grid(1, len(histogram.counts)))
    errors = (images.int() - decoded.int()).square().sum(1)
    return codes.flatten().cpu(), errors.flatten().long().cpu()


def fit_palette(images: ImageSequence | ColorHistogram, num_colors: int = 512, *, seed: int = 0) -> Centers:
    """Return the colors of least squared error that k-means (Lloyd, k-means++) finds, in whole levels of
    0..255, from dark to light.

    Images with fewer distinct colors give just these. Many are first averaged in bins, which become finer.
    Images in any order give the same.
    """
    check_num_colors(num_colors)
    histogram = images if isinstance(images, ColorHistogram) else count_colors(images)
    num_colors = min(num_colors, len(histogram.counts))
    if num_colors == len(histogram.counts):
        centers = histogram.colors
    else:
        centers = _cluster(histogram, num_colors, seed)
    return _by_lightness(_fill(torch.unique(centers, dim=0), histogram, num_colors)).float()


class _Cloud(NamedTuple):
    """Points, each the mean of some pixels, and their numbers; sums below 2^53 are exact in float64."""

    points: Pixels | Points
    counts: Float64[Tensor, " n"]

    def sums(self) -> Iterator[Float64[Tensor, " n"]]:
        for channel in self.points.unbind(1):
            yield (channel * self.counts).round_()


def _cluster(histogram: ColorHistogram, num_colors: int, seed: int) -> UInt8[Tensor, "K 3"]:
    reuse_freed_memory()
    *coarse, exact = _clouds(histogram, POINTS_PER_COLOR * num_colors)
    limits = [MAX_STEPS] * len(coarse) + [MAX_LAST_STEPS if coarse else MAX_EXACT_STEPS]
    with track(f"k-means of {len(exact.counts):,} colors", None):
        centers = _seed_centers((*coarse, exact)[0], num_colors, seed)
        for cloud, limit in zip((*coarse, exact), limits, strict=True):
            centers = _lloyd(cloud, centers, limit)
    return centers.round().to(torch.uint8)


def _clouds(histogram: ColorHistogram, at_least: int) -> list[_Cloud]:
    """Return bins of colors from coarse to fine that have `at_least` points, and the distinct colors."""
    exact, clouds = _Cloud(histogram.colors, histogram.counts.double()), list[_Cloud]()
    for levels in COARSE_LEVELS:
        red, green, blue = (histogram.colors.long() * levels // 256).unbind(1)
        bins, member = torch.unique((red * levels + green) * levels + blue, return_inverse=True)
        if at_least <= len(bins) < len(exact.counts):
            weights = (exact.counts, *exact.sums())
            counts, *sums = (torch.bincount(member, each, len(bins)) for each in weights)
            clouds.append(_Cloud(torch.stack(sums, 1) / counts[:, None], counts))
    return [*clouds, exact]


def _seed_centers(cloud: _Cloud, num_colors: int, seed: int) -> Centers:
    from sklearn.cluster import kmeans_plusplus  # noqa: PLC0415  its import takes a second

    start = int(torch.randint(2**31, (), generator=generator(seed, "palette")))
    # One thread: the last bits of a product, and so what is drawn, depend on the number of threads.
    with threadpool_limits(1):
        points, counts = cloud.points.double().numpy(), cloud.counts.numpy()
        centers, _ = kmeans_plusplus(points, num_colors, sample_weight=counts, random_state=start)
    return torch.from_numpy(centers)


def _lloyd(cloud: _Cloud, centers: Centers, max_steps: int) -> Centers:
    """Return the centers after over-relaxed Lloyd steps, of which fewer are needed."""
    moving = MovingCenters(cloud.points)
    squares = (channel.double().square() @ cloud.counts for channel in cloud.points.unbind(1))
    total = float(sum(squares))
    last, steps = math.inf, 0
    while True:
        codes = moving.nearest(centers)
        counts = torch.bincount(codes, cloud.counts, len(centers))[:, None]
        sums = [torch.bincount(codes, channel, len(centers)) for channel in cloud.sums()]
        means = torch.where(counts > 0, torch.stack(sums, dim=1) / counts, centers)
        error = total - float((counts * means.square()).sum())
        steps += 1
        if steps == max_steps or error > (1 - MIN_DECREASE) * last:
            return means
        centers, last = (means + OVERSHOOT * (means - centers)).clamp(0, 255), error


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
