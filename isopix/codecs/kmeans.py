"""Fit a palette to images: k-means over their colours, weighted by how often each occurs."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types
from torch import Tensor

from isopix.codecs.color_histogram import Histogram, count
from isopix.codecs.palette import Palette, check_number
from isopix.codecs.quantization_error import Fidelity, assign, measure
from isopix.core.random import generator
from isopix.core.types import Grid, Images

EXACT = 65_536  # distinct colours up to which each is a point of its own
COARSE = 64  # levels a channel above that; a bin's point is the mean of its pixels
PIXEL = Grid(1, 1)


@dataclass(frozen=True)
class Fit:
    """A palette and how well it serves the images that it was fitted to."""

    colours: Float[Tensor, "K 3"]  # whole levels of 0..255, from dark to light
    iterations: int  # of k-means; 0 where every distinct colour is kept
    fidelity: Fidelity


def fit(images: Images | Iterable[Images] | Histogram, colours: int = 512, *, seed: int = 0) -> Fit:
    """The k colours of least squared error that k-means (Lloyd, k-means++) finds.

    Centres are rounded to whole levels, the values in which they are shown, so that every colour is nearest
    to itself; one that then equals another gives its place to the colour that is served worst. Equal images,
    in any order and batches, and an equal seed give equal colours. Raises ValueError if the images have fewer
    distinct colours than asked for.
    """
    check_number(colours)
    histogram = images if isinstance(images, Histogram) else count(images)
    distinct = len(histogram.counts)
    if colours > distinct:
        raise ValueError(
            f"{colours} colours were asked for, but the images have only {distinct} distinct ones"
        )
    if colours == distinct:
        centres, iterations = histogram.colours, 0
    else:
        centres, iterations = _cluster(histogram, colours, seed)
    ordered = _by_lightness(_fill(torch.unique(centres, dim=0), histogram, colours)).float()
    return Fit(ordered, iterations, measure(Palette(ordered, PIXEL), histogram))


def _cluster(histogram: Histogram, colours: int, seed: int) -> tuple[UInt8[Tensor, "K 3"], int]:
    points, weights = _points(histogram, colours)
    start = int(torch.randint(2**31, (), generator=generator(seed, "palette")))
    # One thread: scikit-learn adds the threads' sums in the order in which they happen to finish.
    with threadpool_limits(1):
        means = KMeans(colours, n_init=1, random_state=start).fit(
            points.numpy(), sample_weight=weights.numpy()
        )
    return torch.from_numpy(means.cluster_centers_).round().to(torch.uint8), int(means.n_iter_)


def _points(histogram: Histogram, colours: int) -> tuple[Float[Tensor, "n 3"], Float[Tensor, " n"]]:
    """What to cluster, weighted: the distinct colours, or the means of coarser bins where those do."""
    exact = histogram.colours.double()
    if len(exact) <= EXACT:
        return exact, histogram.counts.double()
    red, green, blue = (histogram.colours.long() * COARSE // 256).unbind(1)
    bins, member = torch.unique(torch.stack([red, green, blue], dim=1), dim=0, return_inverse=True)
    if len(bins) < colours:
        return exact, histogram.counts.double()
    weights = torch.zeros(len(bins), dtype=torch.float64).index_add_(0, member, histogram.counts.double())
    sums = torch.zeros(len(bins), 3, dtype=torch.float64)
    sums.index_add_(0, member, exact * histogram.counts[:, None])
    return sums / weights[:, None], weights


def _fill(kept: UInt8[Tensor, "k 3"], histogram: Histogram, colours: int) -> UInt8[Tensor, "K 3"]:
    """Those colours and, until there are enough, the occurring ones with the largest shares of the error."""
    if len(kept) == colours:
        return kept
    _, errors = assign(Palette(kept.float(), PIXEL), histogram)
    worst = (errors * histogram.counts).argsort(descending=True, stable=True)
    return torch.cat([kept, histogram.colours[worst[: colours - len(kept)]]])


def _by_lightness(colours: UInt8[Tensor, "K 3"]) -> UInt8[Tensor, "K 3"]:
    """From dark to light, by Rec. 601 luma; equally light ones by red, green, blue."""
    ordered = torch.unique(colours, dim=0)
    luma = ordered.long() @ torch.tensor([299, 587, 114])
    return ordered[luma.argsort(stable=True)]
