"""Evaluation of a fine-tuned run on test images, optionally by majority vote over random masks."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from isopix.core.command_line import command_line
from isopix.core.device import Precision, autocast
from isopix.core.types import Images, Mask
from isopix.data.dataset import ImageDataset
from isopix.finetuning.classifier import FineTuneModel
from isopix.finetuning.metrics import ClassificationMetrics, evaluate_predictions
from isopix.model.heads import ClassLogits
from isopix.objectives.base import PretrainModel
from isopix.probing.features import draw_masks, eval_batch_size
from isopix.runs.load import LoadedRun, build_network, checkpoint_to_use, find_checkpoint, recipe_of

Progress = Callable[[int], None]  # called with the number of images done, each counted once per mask


class FineTunedModel(NamedTuple):
    """A fine-tuned network with its class head, and the names of the classes."""

    loaded: LoadedRun
    model: FineTuneModel
    classes: tuple[str, ...]


def load_finetuned(run: Path, *, device: torch.device) -> FineTunedModel:
    """Return the best weights of a fine-tuned run, or the newest if none were selected, in evaluation mode.

    Raises ValueError for a run that was not fine-tuned on classes, and what `find_checkpoint` raises.
    """
    found, damaged = find_checkpoint(checkpoint_to_use(run))
    recipe = recipe_of(found)
    if recipe.finetune is None:
        finetune = command_line("finetune", run, "--out", "OUT")
        raise ValueError(f"run {run} is not fine-tuned and has no class head; to fine-tune it: {finetune}")
    if not recipe.finetune.has_class_loss:
        raise ValueError(
            f"run {run} was trained on codes alone (generative_weight=inf) and has no class head"
        )
    state = found.records["state"]
    classes = tuple(map(str, state["classes"]))
    network = build_network(found).to(device)
    pretraining = PretrainModel(network, recipe.objective)
    model = FineTuneModel(pretraining, recipe.model.width, len(classes), recipe.finetune)
    model.head.load_state_dict(found.tensors["classifier"])
    loaded = LoadedRun(recipe, network, state["step"], damaged, found.records)
    return FineTunedModel(loaded, model.eval(), classes)


def evaluate_finetuned(
    finetuned: FineTunedModel,
    data: ImageDataset,
    *,
    masks: int,
    seed: int,
    precision: Precision,
    progress: Progress = lambda done: None,
) -> ClassificationMetrics:
    """Return the metrics on the test images of `data`, under `masks` random masks each; 0 masks nothing.

    Raises ValueError for classes other than the run's, without labels or test images, and for masks of a
    network that masks nothing.
    """
    data.require_labels("evaluate")
    check_classes(data, finetuned.classes)
    check_masks(finetuned, masks)
    test = data.test
    if not len(test) or test.labels is None:
        raise ValueError(f"data set '{data.name}' has no test images to evaluate on")
    logits = []
    for number, mask in enumerate(_masks(finetuned, test.images, masks, seed)):
        count = partial(_add, progress, number * len(test))
        logits.append(predict_logits(finetuned.model, test.images, mask, precision=precision, progress=count))
    return evaluate_predictions(torch.stack(logits), test.labels, seed=seed)


def _masks(finetuned: FineTunedModel, images: Images, masks: int, seed: int) -> Iterator[Mask | None]:
    """Yield None, or masks; mask k depends on the seed and k, and not on their number."""
    if not masks:
        yield None
    for number in range(masks):
        model = PretrainModel(finetuned.model.network, finetuned.model.objective)
        yield draw_masks(model, images, seed=seed, purpose=f"evaluate.mask.{number}")


def _add(progress: Progress, before: int, done: int) -> None:
    progress(before + done)


def default_masks(finetuned: FineTunedModel) -> int:
    """Return 1 if the run evaluates masked images by its recipe, else 0."""
    settings = finetuned.model.settings
    masks_input = finetuned.model.objective.masks_input and settings.mask_ratio != 0
    return int(masks_input and settings.mask_at_eval)


def predict_logits(
    model: FineTuneModel,
    images: Images,
    mask: Mask | None,
    *,
    precision: Precision,
    progress: Progress = lambda done: None,
) -> ClassLogits:
    """Return the class logits of images in float32 on the CPU, computed in batches on the model's device."""
    device = model.network.device
    size, logits = eval_batch_size(model.network.backbone), []
    for start in range(0, len(images), size):
        batch = slice(start, start + size)
        masked = None if mask is None else mask[batch].to(device)
        with torch.no_grad(), autocast(device, precision):
            inputs = model.network.inputs_of(images[batch].to(device))
            logits.append(model.predict(inputs, masked).float().cpu())
        progress(min(start + size, len(images)))
    return torch.cat(logits)


def check_classes(data: ImageDataset, classes: Sequence[str]) -> None:
    """Raises ValueError, naming the difference, if the classes of `data` are not these, in this order."""
    if tuple(data.classes) == tuple(classes):
        return
    missing, unknown = sorted(set(classes) - set(data.classes)), sorted(set(data.classes) - set(classes))
    parts = [
        f"{what} {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
        for what, names in (("it lacks", missing), ("the run does not know", unknown))
        if names
    ]
    difference = " and ".join(parts) or f"their order differs, {', '.join(data.classes[:5])} ..."
    raise ValueError(f"data set '{data.name}' has other classes than the run: {difference}")


def check_masks(finetuned: FineTunedModel, masks: int) -> None:
    """Raises ValueError for a number of masks that does not go with the network."""
    if masks < 0:
        raise ValueError(f"masks is {masks}; allowed: 0 or more")
    if masks and not finetuned.model.objective.masks_input:
        raise ValueError(f"masks is {masks}, but an autoregressive model masks nothing; allowed: 0")
