"""Evaluating: a fine-tuned run's classifier and test images become a verdict, under masks if it has any."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from isopix.core.command_line import command
from isopix.core.device import Precision, autocast
from isopix.core.types import Images, Mask
from isopix.data.dataset import ImageSet
from isopix.finetune.classifier import Classifier
from isopix.finetune.metrics import Verdict, judge
from isopix.model.heads import ClassLogits
from isopix.objectives.base import PretrainModel
from isopix.probe.features import draw_masks, images_a_pass
from isopix.runs.load import Loaded, best_or_newest, find, recipe_of, revive

Progress = Callable[[int], None]  # told how many images have been read, one under two masks counted twice


class Tuned(NamedTuple):
    """A fine-tuned network with its head for classes, and their names."""

    loaded: Loaded
    classifier: Classifier
    classes: tuple[str, ...]


def load_tuned(run: Path, *, device: torch.device) -> Tuned:
    """The best weights of a fine-tuned run, or the newest where nothing was chosen, ready to judge.

    Raises ValueError for a run that is not fine-tuned, with the command that makes one, and what `find`
    raises.
    """
    found, passed_over = find(best_or_newest(run))
    recipe = recipe_of(found)
    if recipe.finetune is None:
        tuning = command("finetune", run, "--out", "OUT")
        raise ValueError(f"run {run} has no classifier, as it is not fine-tuned; {tuning} makes one of it")
    if not recipe.finetune.classifies:
        raise ValueError(f"run {run} has learnt codes alone (generative_weight=inf) and knows no classes")
    state = found.records["state"]
    classes = tuple(map(str, state["classes"]))
    network = revive(found).to(device)
    model = PretrainModel(network, recipe.objective)
    classifier = Classifier(model, recipe.model.width, len(classes), recipe.finetune)
    classifier.head.load_state_dict(found.tensors["classifier"])
    loaded = Loaded(recipe, network, state["step"], passed_over, found.records)
    return Tuned(loaded, classifier.eval(), classes)


def evaluate(
    tuned: Tuned,
    data: ImageSet,
    *,
    masks: int,
    seed: int,
    precision: Precision,
    progress: Progress = lambda done: None,
) -> Verdict:
    """The verdict on the test images of `data`, read under so many masks each, or with nothing hidden for 0.

    Raises ValueError for other classes than the run's, without labels or test images, and for masks of a
    network that hides nothing.
    """
    data.require_labels("evaluate")
    refuse_other_classes(data, tuned.classes)
    refuse_masks(tuned, masks)
    test = data.test
    if not len(test) or test.labels is None:
        raise ValueError(f"data set '{data.name}' has no test images to be judged on")
    readings = []
    for number, hidden in enumerate(_veils(tuned, test.images, masks, seed)):
        told = partial(_told, progress, number * len(test))
        readings.append(answers(tuned.classifier, test.images, hidden, precision=precision, progress=told))
    return judge(torch.stack(readings), test.labels, seed=seed)


def _veils(tuned: Tuned, images: Images, masks: int, seed: int) -> Iterator[Mask | None]:
    """What is hidden at each reading; mask k is a function of the seed and k, however many there are."""
    if not masks:
        yield None
    for number in range(masks):
        classifier = tuned.classifier
        model = PretrainModel(classifier.network, classifier.objective)
        yield draw_masks(model, images, seed=seed, purpose=f"evaluate.mask.{number}")


def _told(progress: Progress, before: int, done: int) -> None:
    progress(before + done)


def usual_masks(tuned: Tuned) -> int:
    """1 where the run is judged under masks, as its recipe says; else 0."""
    settings = tuned.classifier.settings
    hides = tuned.classifier.objective.masks_input and settings.hide != 0
    return int(hides and settings.masked)


def answers(
    classifier: Classifier,
    images: Images,
    hidden: Mask | None,
    *,
    precision: Precision,
    progress: Progress = lambda done: None,
) -> ClassLogits:
    """The class logits of all images, float32 on the CPU, some at a time on the network's device."""
    device = classifier.network.device
    size, found = images_a_pass(classifier.network.backbone), []
    for start in range(0, len(images), size):
        part = slice(start, start + size)
        veil = None if hidden is None else hidden[part].to(device)
        with torch.no_grad(), autocast(device, precision):
            inputs = classifier.network.inputs_of(images[part].to(device))
            found.append(classifier.answer(inputs, veil).float().cpu())
        progress(min(start + size, len(images)))
    return torch.cat(found)


def refuse_other_classes(data: ImageSet, classes: Sequence[str]) -> None:
    """Raises ValueError, naming the difference, if the classes of `data` are not these, in this order."""
    if tuple(data.classes) == tuple(classes):
        return
    lost, new = sorted(set(classes) - set(data.classes)), sorted(set(data.classes) - set(classes))
    parts = [
        f"{what} {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
        for what, names in (("it lacks", lost), ("the run does not know", new))
        if names
    ]
    difference = " and ".join(parts) or f"they come in another order, {', '.join(data.classes[:5])} ..."
    raise ValueError(f"data set '{data.name}' has other classes than the run: {difference}")


def refuse_masks(tuned: Tuned, masks: int) -> None:
    """Raises ValueError for a number of masks that the network cannot be read under."""
    if masks < 0:
        raise ValueError(f"masks is {masks}; allowed: 0 or more")
    if masks and not tuned.classifier.objective.masks_input:
        raise ValueError(f"masks is {masks}, but an autoregressive model hides nothing; allowed: 0")
