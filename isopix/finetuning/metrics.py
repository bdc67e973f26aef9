"""Metrics of a classifier on held-out images, unmasked or ensembled over several masks."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core import stats
from isopix.core.measurement import EnsembleAccuracy
from isopix.core.random import generator
from isopix.core.types import Groups, Labels
from isopix.finetuning.results import ClassificationMetrics
from isopix.probing import mask_ensemble

EnsembleLogits = Float[Tensor, "K B C"]  # class logits of the same images under K masks, or K = 1 unmasked

TOP_K = 5
VOTE_BATCH_SIZE = 256  # images that are voted on at once; no setting, as the random ties depend on it


def evaluate_predictions(
    logits: EnsembleLogits, labels: Labels, groups: Groups | None = None, *, seed: int
) -> ClassificationMetrics:
    """Compute all metrics, on the CPU; the seed determines random ties. Images of one of the `groups` are not
    independent.
    """
    exact, num_classes = logits.cpu().double(), logits.shape[2]
    labels, predictions = labels.cpu(), logits.cpu().argmax(-1)
    voted = majority_vote(predictions, seed=seed)
    probabilities = exact.softmax(-1)
    [interval] = stats.accuracy_interval((voted == labels)[None], groups)
    top_k = probabilities.mean(0).topk(min(TOP_K, num_classes)).indices
    averaged = mask_ensemble.mean_probability(probabilities)
    confused = confusion_matrix(voted, labels, num_classes)
    of_class = zip(confused.diagonal().tolist(), confused.sum(1).tolist(), strict=True)
    return ClassificationMetrics(
        num_images=len(labels),
        accuracy=_mean(voted == labels),
        interval=interval,
        cross_entropy=F.cross_entropy(exact.flatten(0, 1), labels.repeat(len(exact))).item(),
        top5_accuracy=_mean((top_k == labels[:, None]).any(1)) if num_classes > TOP_K else None,
        per_class_accuracy=tuple(right / count if count else None for right, count in of_class),
        confusion_matrix=tuple(map(tuple, confused.tolist())),
        ensemble=EnsembleAccuracy(_mean(predictions == labels), _mean(averaged == labels)),
    )


def majority_vote(predictions: Int[Tensor, "K B"], *, seed: int) -> Labels:
    """Return the most frequent of K predictions per image; ties are broken at random, by the seed."""
    random = generator(seed, "evaluate.vote")
    return torch.cat(
        [mask_ensemble.mode(batch, random) for batch in torch.split(predictions, VOTE_BATCH_SIZE, 1)]
    )


def confusion_matrix(predictions: Labels, labels: Labels, num_classes: int) -> Int[Tensor, "C C"]:
    """Count the images of each class (rows) by prediction (columns)."""
    counts = (labels * num_classes + predictions).bincount(minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


def _mean(correct: Tensor) -> float:
    return correct.double().mean().item()
