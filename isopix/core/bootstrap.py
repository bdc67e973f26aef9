"""Bootstrap: confidence intervals of accuracies, and of differences between them, over test images.

Images that were made from one original, as the placements of a digit, are not independent: an interval that
resamples them one by one is too narrow. Then groups are resampled, all images of each together (cluster
bootstrap; Davison and Hinkley 1997, section 3.8).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from isopix.core.types import Groups

CONFIDENCE_LEVEL = 0.95
Z_95 = 1.96  # standard deviations on each side of the mean that hold 95 % of a normal distribution

ResampleCounts = Float[Tensor, "R B"]  # how often each resample holds each image


def resample_counts(
    num_images: int, num_resamples: int, generator: torch.Generator, groups: Groups | None = None
) -> ResampleCounts:
    """Resample the images with replacement, or whole groups of them; the same resamples serve all accuracies
    that are compared.

    SciPy's `bootstrap` would draw them anew for each accuracy; here one product gives the accuracies of all.
    """
    if groups is not None:
        distinct, group_of_image = torch.unique(groups, return_inverse=True)
        return resample_counts(len(distinct), num_resamples, generator)[:, group_of_image]
    indices = torch.randint(num_images, (num_resamples, num_images), generator=generator)
    ones = torch.ones(num_resamples, num_images)
    return torch.zeros(num_resamples, num_images).scatter_add_(1, indices, ones)


def percentile_interval(
    correct: Bool[Tensor, "F B"] | Float[Tensor, "F B"], counts: ResampleCounts
) -> tuple[Float[Tensor, " F"], Float[Tensor, " F"]]:
    """Return the ends of the 95 % percentile interval of the mean over images of each row: an accuracy, or
    the difference between two for the differences between their images.
    """
    means = correct.to(counts) @ counts.T / counts.sum(1)
    tail = (1 - CONFIDENCE_LEVEL) / 2
    low, high = means.quantile(torch.tensor([tail, 1 - tail]), dim=1)
    return low, high
