"""Confidence intervals over test images: of accuracies, and by the bootstrap of differences between them.

Images that were made from one original, as the placements of a digit, are not independent: an interval that
takes them one by one is too narrow. Then groups are resampled, all images of each together (cluster
bootstrap; Davison and Hinkley 1997, section 3.8), and accuracies count fewer images.
"""

import math

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


def accuracy_interval(
    correct: Bool[Tensor, "F B"], groups: Groups | None = None
) -> list[tuple[float, float]]:
    """Return the ends of the 95 % interval of each accuracy (Wilson's score), the one interval of accuracies.

    Groups count as the number of independent images whose accuracy would vary as much, by the variance
    between groups: at least the number of groups, at most that of images. The bootstrap, which has no width
    where all images or none are correct, is for differences.
    """
    accuracies, count = correct.double().mean(1), correct.shape[1]
    counts = [float(count)] * len(correct) if groups is None else _effective_counts(correct, groups)
    return [wilson_interval(*pair) for pair in zip(accuracies.tolist(), counts, strict=True)]


def wilson_interval(accuracy: float, count: int | float) -> tuple[float, float]:
    """Return the 95 % score interval of the accuracy on `count` independent images (Wilson 1927)."""
    square = Z_95**2 / count
    center = (accuracy + square / 2) / (1 + square)
    half = math.sqrt(accuracy * (1 - accuracy) * square + square**2 / 4) / (1 + square)
    return max(0.0, center - half), min(1.0, center + half)


def _effective_counts(correct: Bool[Tensor, "F B"], groups: Groups) -> list[float]:
    """Return p (1 - p) / variance of each accuracy p, the variance being estimated between groups."""
    distinct, group_of_image = torch.unique(groups.to(correct.device), return_inverse=True)
    num_groups, count = len(distinct), correct.shape[1]
    accuracy = correct.double().mean(1, keepdim=True)
    sums = torch.zeros(len(correct), num_groups, dtype=torch.float64, device=correct.device)
    sums.index_add_(1, group_of_image, correct.double() - accuracy)
    variance = sums.square().sum(1) * num_groups / max(1, num_groups - 1) / count**2
    counts = (accuracy * (1 - accuracy))[:, 0] / variance
    return counts.nan_to_num(num_groups, num_groups, num_groups).clamp(num_groups, count).tolist()
