"""Bootstrap: confidence intervals of accuracies over resampled test images."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

CONFIDENCE_LEVEL = 0.95
Z_95 = 1.96  # standard deviations on each side of the mean that hold 95 % of a normal distribution

ResampleCounts = Float[Tensor, "R B"]  # how often each resample holds each image


def resample_counts(num_images: int, num_resamples: int, generator: torch.Generator) -> ResampleCounts:
    """Resample the images with replacement; the same resamples serve all accuracies that are compared.

    SciPy's `bootstrap` would draw them anew for each accuracy; here one product gives the accuracies of all.
    """
    indices = torch.randint(num_images, (num_resamples, num_images), generator=generator)
    ones = torch.ones(num_resamples, num_images)
    return torch.zeros(num_resamples, num_images).scatter_add_(1, indices, ones)


def percentile_interval(
    correct: Bool[Tensor, "F B"], counts: ResampleCounts
) -> tuple[Float[Tensor, " F"], Float[Tensor, " F"]]:
    """Return the ends of the 95 % percentile interval of each accuracy."""
    accuracies = correct.to(counts) @ counts.T / correct.shape[1]
    tail = (1 - CONFIDENCE_LEVEL) / 2
    low, high = accuracies.quantile(torch.tensor([tail, 1 - tail]), dim=1)
    return low, high
