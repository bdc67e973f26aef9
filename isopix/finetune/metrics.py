"""Verdict: how right a classifier is about images that it has not learnt from, read once or several times."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core import bootstrap
from isopix.core.random import generator
from isopix.core.types import Labels
from isopix.probe import mask_ensemble
from isopix.probe.results import Ensemble

Readings = Float[Tensor, "K B C"]  # class logits of the same images, under K masks or none

TOP = 5
RESAMPLES = 1000
BLOCK = 256  # images that are voted on at once; the draws of ties depend on it, so it is no setting


@dataclass(frozen=True)
class Verdict:
    """`accuracy` is the share of images whose class the modal vote of all readings names (iGPT section 4.6);
    95 % of the test set's resamples lie in `low`..`high`.

    `class_nats` is the cross-entropy of an image, the mean over readings; `top5` how often the class is among
    the five of the highest mean probability, None where there are no more than five; `per_class` the accuracy
    on the images of each class, None where there are none; `confusion` [C C] how many images of each class, a
    row, were answered with each. `ensemble` is what one reading alone and the mean probability would reach.
    """

    images: int
    accuracy: float
    low: float
    high: float
    class_nats: float
    top5: float | None
    per_class: tuple[float | None, ...]
    confusion: tuple[tuple[int, ...], ...]
    ensemble: Ensemble


def judge(readings: Readings, labels: Labels, *, seed: int) -> Verdict:
    """What these logits are worth, on the CPU; ties and resamples are drawn by the seed."""
    exact, classes = readings.cpu().double(), readings.shape[2]
    labels, predictions = labels.cpu(), readings.cpu().argmax(-1)
    voted = majority(predictions, seed=seed)
    probabilities = exact.softmax(-1)
    counts = bootstrap.draw_resamples(len(labels), RESAMPLES, generator(seed, "evaluate.bootstrap"))
    low, high = bootstrap.percentile_interval((voted == labels)[None], counts)
    likeliest = probabilities.mean(0).topk(min(TOP, classes)).indices
    averaged = mask_ensemble.mean_probability(probabilities)
    return Verdict(
        images=len(labels),
        accuracy=_share(voted == labels),
        low=low.item(),
        high=high.item(),
        class_nats=F.cross_entropy(exact.flatten(0, 1), labels.repeat(len(exact))).item(),
        top5=_share((likeliest == labels[:, None]).any(1)) if classes > TOP else None,
        per_class=tuple(_of_class(voted, labels, each) for each in range(classes)),
        confusion=tuple(map(tuple, confusion(voted, labels, classes).tolist())),
        ensemble=Ensemble(_share(predictions == labels), _share(averaged == labels)),
    )


def majority(predictions: Int[Tensor, "K B"], *, seed: int) -> Labels:
    """The modal vote of K predictions of each image; one alone stands as it is."""
    draws = generator(seed, "evaluate.vote")
    return torch.cat([mask_ensemble.modal(block, draws) for block in torch.split(predictions, BLOCK, 1)])


def confusion(answers: Labels, labels: Labels, classes: int) -> Int[Tensor, "C C"]:
    """How many images of each class, a row, were given each answer, a column."""
    return (labels * classes + answers).bincount(minlength=classes**2).reshape(classes, classes)


def _share(right: Tensor) -> float:
    return right.double().mean().item()


def _of_class(answers: Labels, labels: Labels, kind: int) -> float | None:
    own = labels == kind
    return _share(answers[own] == kind) if own.any() else None
