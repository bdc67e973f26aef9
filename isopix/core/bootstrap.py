"""Bootstrap: how far an accuracy would move on other test images of the same kind."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

CONFIDENCE = 0.95
Z_95 = 1.96  # deviations that hold LEVEL of a normal distribution

ResampleCounts = Float[Tensor, "R B"]  # how often each resample holds each image


def draw_resamples(images: int, resamples: int, generator: torch.Generator) -> ResampleCounts:
    """Resamples of the images, with replacement; one draw serves all accuracies that are to be compared."""
    chosen = torch.randint(images, (resamples, images), generator=generator)
    return torch.zeros(resamples, images).scatter_add_(1, chosen, torch.ones(resamples, images))


def percentile_interval(
    correct: Bool[Tensor, "F B"], counts: ResampleCounts
) -> tuple[Float[Tensor, " F"], Float[Tensor, " F"]]:
    """The percentile interval of each accuracy: 95 % of the resamples lie within."""
    accuracies = correct.to(counts) @ counts.T / correct.shape[1]
    tail = (1 - CONFIDENCE) / 2
    low, high = accuracies.quantile(torch.tensor([tail, 1 - tail]), dim=1)
    return low, high
