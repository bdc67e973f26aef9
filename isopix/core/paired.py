"""Means of paired differences over seeds, label draws and test images, with 95 % confidence intervals."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from isopix.core.bootstrap import CONFIDENCE_LEVEL

Values = Float[np.ndarray, " n"]
Groups = Int[np.ndarray, " n"]  # which group each value is of
Cells = Float[np.ndarray, "S D"]  # one value for each seed (rows) and label draw (columns)
ImageCells = Float[np.ndarray, "S D B"]  # one value for each seed, label draw and test image


def mean_half_width(values: Values, groups: Groups | None = None) -> float | None:
    """Return half the width of the mean's 95 % interval, by Student's t; None for fewer than two groups.

    Groups are independent, the values of one are not; None: every value is its own group. With groups of
    different sizes the mean is a ratio, of the sum to the number of values (Cochran 1977, section 2.11).
    """
    found = mean_standard_error(values, groups)
    return None if found is None else float(stdtrit(found[1], (1 + CONFIDENCE_LEVEL) / 2)) * found[0]


def mean_standard_error(values: Values, groups: Groups | None = None) -> tuple[float, int] | None:
    """Return the standard error of the mean of values in groups, as `mean_half_width` takes them, and its
    degrees of freedom; None for fewer than two groups.
    """
    labels = np.arange(len(values)) if groups is None else groups
    _, group_of_value = np.unique(labels, return_inverse=True)
    residuals = np.bincount(group_of_value, values - values.mean())
    count = len(residuals)
    if count < 2:
        return None
    variance = float(np.square(residuals).sum()) * count / (count - 1) / len(values) ** 2
    return math.sqrt(variance), count - 1


class CrossedMean(NamedTuple):
    """The mean over a crossed design, and half the width of the 95 % intervals of it that cover one source of
    variation each; None where the design has one level of it.

    The mean varies with the seeds, with the label draws and with the test images, which all cells share.
    Intervals of more than one source add the half-widths in quadrature. In simulations of three seeds and
    five draws they cover the true mean in 94.9 % to 99.6 % of designs, whatever the ratio of the variances;
    they are widest, compared with need, where neither seeds nor draws matter.
    """

    mean: float
    seeds: float | None
    draws: float | None
    images: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval over new seeds and draws, for these test images."""
        return _quadrature(self.seeds, self.draws)

    @property
    def half_width_new_images(self) -> float | None:
        """Half the width of the interval over new seeds, draws and test images; None if those are unknown."""
        return None if self.images is None else _quadrature(self.seeds, self.draws, self.images)

    def as_record(self) -> dict[str, float | None]:
        """Return plain values, with the half-widths of both intervals."""
        widths = {"half_width": self.half_width, "half_width_new_images": self.half_width_new_images}
        return {**self._asdict(), **widths}


def crossed_mean(cells: Cells, images: ImageCells | None = None, groups: Groups | None = None) -> CrossedMean:
    """Return the mean of cells, each an independent run of one seed with one label draw.

    `images` are the values of each test image, whose means are the cells; new images come in `groups`, as the
    placements of one digit. Raises ValueError if the cells are not these means, and without cells.
    """
    if not cells.size:
        raise ValueError("a mean needs one cell or more")
    if images is not None and not np.allclose(images.mean(2), cells):
        raise ValueError("the cells are not the means over the images")
    return CrossedMean(
        mean=float(cells.mean()),
        seeds=mean_half_width(cells.mean(1)),
        draws=mean_half_width(cells.mean(0)),
        images=None if images is None else mean_half_width(images.mean((0, 1)), groups),
    )


def _quadrature(*half_widths: float | None) -> float | None:
    known = [each for each in half_widths if each is not None]
    return math.hypot(*known) if known else None
