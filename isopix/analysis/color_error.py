"""Color error of reconstructions: wrong colors, and right colors at wrong positions.

The histogram error is the mean absolute difference of sorted levels (the Wasserstein-1 distance), a lower
bound over all orders of the predictions; the rest of the error is the misplaced part.
"""

from typing import NamedTuple

import torch

from isopix.core.types import Images, Mask

MAX_LEVEL = 255


class ColorError(NamedTuple):
    """Errors as fractions of a channel's range, averaged over masked sub-pixels, then over images."""

    mean_absolute: float
    histogram: float

    @property
    def misplaced_fraction(self) -> float:
        """The fraction of the error that a permutation of the predictions would remove; 0 without error."""
        return 1 - self.histogram / self.mean_absolute if self.mean_absolute else 0.0


def color_error(target: Images, mask: Mask, prediction: Images) -> ColorError:
    """Return the color error over pixels with any masked channel. ValueError if no image has one."""
    errors, histogram_errors = [], []
    for true, masked, predicted in zip(target.flatten(2), mask.any(-1), prediction.flatten(2), strict=True):
        if masked.any():
            a, b = true[:, masked].float() / MAX_LEVEL, predicted[:, masked].float() / MAX_LEVEL
            errors.append((a - b).abs().mean())
            histogram_errors.append((a.sort(1).values - b.sort(1).values).abs().mean())
    if not errors:
        raise ValueError("no pixel of these images is masked; there is no color error")
    return ColorError(float(torch.stack(errors).mean()), float(torch.stack(histogram_errors).mean()))
