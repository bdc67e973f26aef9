"""Bootstrap confidence intervals of accuracies over test images."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

CONFIDENCE = 0.95
Z_95 = 1.96  # standard deviations within which a normal distribution has CONFIDENCE of its mass

ResampleCounts = Float[Tensor, "R B"]  # how often each resample has each image


def draw_resamples(num_images: int, resamples: int, generator: torch.Generator) -> ResampleCounts:
    """Draw resamples of the images with replacement; use the same ones for accuracies to be compared."""
    indices = torch.randint(num_images, (resamples, num_images), generator=generator)
    return torch.zeros(resamples, num_images).scatter_add_(1, indices, torch.ones(resamples, num_images))


def percentile_interval(
    correct: Bool[Tensor, "F B"], counts: ResampleCounts
) -> tuple[Float[Tensor, " F"], Float[Tensor, " F"]]:
    """Return the percentile interval of each accuracy, which contains 95 % of the resamples."""
    accuracies = correct.to(counts) @ counts.T / correct.shape[1]
    tail = (1 - CONFIDENCE) / 2
    low, high = accuracies.quantile(torch.tensor([tail, 1 - tail]), dim=1)
    return low, high
