"""Evaluation of a fine-tuned model on test images, optionally by majority vote over random masks."""

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core import stats
from isopix.core.device import Precision, autocast, eval_batch_size
from isopix.core.progress import quiet, track
from isopix.core.random import generator
from isopix.core.text import normal_form
from isopix.core.types import Groups, ImageSequence, Labels, Mask
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.preprocess import preprocess
from isopix.data.sources.base import SourceSplit
from isopix.finetuning.classifier import FineTuneModel
from isopix.finetuning.results import CalibrationBin, ClassificationMetrics
from isopix.model.heads import ClassLogits
from isopix.objectives.base import PretrainModel
from isopix.probing.features import draw_masks
from isopix.probing.probe import vote
from isopix.storage.result import EnsembleAccuracy

EnsembleLogits = Float[Tensor, "K B C"]  # class logits of the same images under K masks, or K = 1 unmasked

TOP_K = 5
NUM_BINS = 15  # of confidence, as Guo et al. 2017
VOTE_BATCH_SIZE = 256  # images that are voted on at once; no setting, as the random ties depend on it


def evaluate_finetuned(
    model: FineTuneModel,
    classes: Sequence[str],
    data: ImageDataset,
    *,
    masks: int,
    seed: int,
    precision: Precision,
) -> ClassificationMetrics:
    """Return the metrics on the test images of `data`, under `masks` random masks each; 0 masks nothing."""
    require_classes(data, classes)
    test = data.test
    if not len(test) or test.labels is None:
        raise ValueError(f"dataset '{data.name}' has no test images to evaluate on")
    logits = ensemble_logits(model, test.images, masks=masks, seed=seed, precision=precision)
    return evaluate_predictions(logits, test.labels, test.groups, seed=seed)


def require_classes(data: ImageDataset, classes: Sequence[str]) -> None:
    """Raise ValueError for a dataset with other classes than these, or in another order."""
    if tuple(data.classes) != tuple(map(normal_form, classes)):
        given, own = (f"{', '.join(each[:5])}{' ...' * (len(each) > 5)}" for each in (data.classes, classes))
        raise ValueError(f"dataset '{data.name}' has the classes {given}; those of the run are {own}")


def ensemble_logits(
    model: FineTuneModel, images: ImageSequence, *, masks: int, seed: int, precision: Precision
) -> EnsembleLogits:
    """Return the class logits of images under `masks` random masks each; 0 masks nothing."""
    pretraining, logits = PretrainModel(model.network, model.objective), list[ClassLogits]()
    with track("evaluating images", max(1, masks) * len(images)) as count:
        for number in range(max(1, masks)):  # mask k depends on the seed and k, and not on their number
            purpose = f"evaluate.mask.{number}"
            mask = draw_masks(pretraining, images, seed=seed, purpose=purpose) if masks else None
            logits.append(predict_logits(model, images, mask, precision=precision))
            count(len(logits) * len(images))
    return torch.stack(logits)


def predict_source(
    model: FineTuneModel, source: SourceSplit, config: DataConfig, *, top_k: int, precision: Precision
) -> Iterator[tuple[list[int], list[float]] | str]:
    """Yield the `top_k` most likely classes of each image, with probabilities, or why it cannot be read.

    Probabilities are means over masks, drawn for every VOTE_BATCH_SIZE images, if the model has some.
    """
    images, masks = preprocess(source, config), num_masks(model)
    with track("predicting classes", source.num_images) as count, quiet():
        for start in range(0, source.num_images, VOTE_BATCH_SIZE):
            batch = list(islice(images, VOTE_BATCH_SIZE))
            read = [torch.from_numpy(each.image) for each in batch if not isinstance(each, str)]
            found: Iterator[tuple[list[int], list[float]]] = iter(())
            if read:
                logits = ensemble_logits(model, torch.stack(read), masks=masks, seed=0, precision=precision)
                values, classes = logits.softmax(-1).mean(0).topk(top_k)
                found = zip(classes.tolist(), values.tolist(), strict=True)
            yield from (each if isinstance(each, str) else next(found) for each in batch)
            count(start + len(batch))


def num_masks(model: FineTuneModel, given: int | None = None) -> int:
    """Return the number of masks: `given`, or one if the model is evaluated on masked images, else none."""
    if given and not model.objective.masks_input:
        raise ValueError(f"mask_ensemble is {given}, but an autoregressive model masks nothing; allowed: 0")
    masks_input = model.objective.masks_input and model.settings.mask_ratio != 0
    return int(masks_input and model.settings.mask_at_eval) if given is None else given


def predict_logits(
    model: FineTuneModel, images: ImageSequence, mask: Mask | None, *, precision: Precision
) -> ClassLogits:
    """Return the class logits of images in float32 on the CPU, computed in batches on the model's device."""
    device = model.network.device
    size, logits = eval_batch_size(model.network.codec.grid.positions, model.network.device), []
    for start in range(0, len(images), size):
        batch = slice(start, start + size)
        masked = None if mask is None else mask[batch].to(device)
        with torch.no_grad(), autocast(device, precision):
            inputs = model.network.inputs_of(images[batch].to(device))
            logits.append(model.predict(inputs, masked).float().cpu())
    return torch.cat(logits)


def evaluate_predictions(
    logits: EnsembleLogits, labels: Labels, groups: Groups | None = None, *, seed: int
) -> ClassificationMetrics:
    """Compute all metrics; the seed determines random ties, images of one group are not independent."""
    exact, num_classes = logits.cpu().double(), logits.shape[2]
    labels, predictions = labels.cpu(), logits.cpu().argmax(-1)
    voted = majority_vote(predictions, seed=seed)
    probabilities = exact.softmax(-1)
    [interval] = stats.accuracy_interval((voted == labels)[None], groups)
    top_k = probabilities.mean(0).topk(min(TOP_K, num_classes)).indices
    confidence, averaged = probabilities.mean(0).max(-1)
    bins = calibration_bins(confidence, averaged == labels)
    gaps = [each.images * abs(each.accuracy - each.confidence) for each in bins]
    confused = (labels * num_classes + voted).bincount(minlength=num_classes**2)
    confused = confused.reshape(num_classes, num_classes)
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
        calibration_error=sum(gaps) / len(labels),
        calibration=bins,
    )


def calibration_bins(
    confidence: Float[Tensor, " B"], correct: Bool[Tensor, " B"]
) -> tuple[CalibrationBin, ...]:
    """Return those of 15 bins (0, 1/15], ..., (14/15, 1] of confidence that have images."""
    places = (confidence * NUM_BINS).ceil()
    found = [places == place for place in range(1, NUM_BINS + 1)]
    return tuple(
        CalibrationBin(int(own.sum()), _mean(confidence[own]), _mean(correct[own]))
        for own in found
        if own.any()
    )


def majority_vote(predictions: Int[Tensor, "K B"], *, seed: int) -> Labels:
    """Return the most frequent of K predictions per image; ties are broken at random, by the seed."""
    random = generator(seed, "evaluate.vote")
    return torch.cat([vote(batch, random) for batch in torch.split(predictions, VOTE_BATCH_SIZE, 1)])


def _mean(correct: Tensor) -> float:
    return correct.double().mean().item()
