"""Any two runs on the same test images: loss, ridge probe and, of fine-tuned ones, accuracy."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import bdtr
from torch import Tensor

from isopix.analysis.scores import ScoreConfig, score_images
from isopix.core.config import to_dict
from isopix.core.device import Precision
from isopix.core.stats import mean_half_width
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import differences
from isopix.finetuning.evaluate import ensemble_logits, majority_vote, num_masks, require_classes
from isopix.pretrained.model import PretrainedModel
from isopix.probing.config import ProbeConfig
from isopix.probing.features import NetworkFeatures, read_splits
from isopix.probing.methods import RidgeProbe
from isopix.probing.probe import evaluate_probe
from isopix.reporting.summary import different_settings
from isopix.studies.results import PairedNumber, RunComparison

ONE_RUN = "intervals cover the sampling of test images only; variation over seeds is not included"
SELECTED = "a run's ridge probe is of the layer and L2 penalty that are best on its validation images"


class Side(NamedTuple):
    """A run to compare, and the images that it is measured on."""

    name: str
    model: PretrainedModel
    images: ImageDataset
    precision: Precision


def compare_runs(first: Side, second: Side) -> RunComparison:
    """Compare what both runs can be measured for. Raises ValueError if there is nothing."""
    sides, numbers, notes = _on_common_images(first, second), list[PairedNumber](), list[str]()
    for what, measure in MEASURES.items():
        try:
            measured = sides if measure is _losses else _labeled(sides, what)
            numbers.append(_paired(*measure(measured), measured))
        except ValueError as error:
            notes.append(f"no {what}: {error}")
    if not numbers:
        raise ValueError("; ".join(notes))
    recipes = [each.model.loaded.recipe for each in sides]
    measurements = [each.model.loaded.measure(each.images, "test") for each in sides]
    warnings = dict.fromkeys(text for each in measurements for text in each.warnings)
    if different := differences(measurements):
        notes.append(f"the runs differ in {', '.join(different)}")
    return RunComparison(
        runs=(first.name, second.name),
        data=first.images.name,
        num_images=len(sides[0].images.test),
        numbers=tuple(numbers),
        settings=different_settings(list(map(to_dict, recipes))),
        measurements=tuple(measurements),
        warnings=(*notes, SELECTED, ONE_RUN, *warnings),
    )


def _on_common_images(*sides: Side) -> list[Side]:
    """Return runs with their common test images, by content, in one order."""
    hashes = [each.images.test.hashes for each in sides]
    arrays = [np.array([]) if each is None else each.numpy() for each in hashes]
    common, *places = np.intersect1d(arrays[0], arrays[1], return_indices=True)
    if not len(common):
        names = " and ".join(each.name for each in sides)
        raise ValueError(f"{names} have no test images in common that neither has seen; give --data")
    chosen = zip(sides, map(torch.from_numpy, places), strict=True)
    return [
        each._replace(images=replace(each.images, test=each.images.test.select(place)))
        for each, place in chosen
    ]


def _labeled(sides: Sequence[Side], what: str) -> list[Side]:
    return _on_common_images(*(each._replace(images=each.images.labeled(what)) for each in sides))


def _paired(name: str, values: Sequence[Tensor], sides: Sequence[Side]) -> PairedNumber:
    one, other = (each.cpu().double() for each in values)
    groups = sides[0].images.test.groups
    half_width = mean_half_width((one - other).numpy(), None if groups is None else groups.numpy())
    number = PairedNumber(name, len(one), float(one.mean()), float(other.mean()), half_width)
    if values[0].dtype != torch.bool:
        return number
    only = int((one > other).sum()), int((other > one).sum())
    p = None if groups is not None else min(1.0, 2 * float(bdtr(min(only), sum(only), 0.5)))
    return replace(number, only=only, p=p)


def _losses(sides: Sequence[Side]) -> tuple[str, list[Tensor]]:
    """Return nats per code of runs with the same codes, else bits per dimension of the 24-bit images."""
    runs = [each.model.loaded for each in sides]
    sizes = [" × ".join(map(str, each.network.codec.image_size)) for each in runs]
    if len(set(sizes)) > 1:
        raise ValueError(f"the runs read images of {' and '.join(sizes)} pixels")
    for each in runs:
        each.require_decoder("compare")
    found = [
        score_images(run.model, side.images.test.images, ScoreConfig(), files=False)
        for run, side in zip(runs, sides, strict=True)
    ]
    comparable = {"bits_per_dim": "bits per dimension"}
    if len({each.network.codec.fingerprint() for each in runs}) == 1:
        comparable = {"nats_per_code": "nats per code", **comparable}
        if runs[0].recipe.objective == runs[1].recipe.objective:
            comparable["masked_loss"] = "nats per masked code"
    for name, unit in comparable.items():
        if all(name in each for each in found):
            return f"test loss, {unit}", [each[name] for each in found]
    raise ValueError("the runs differ in what they predict, or in their masks")


def _probed(sides: Sequence[Side]) -> tuple[str, list[Tensor]]:
    correct = list[Tensor]()
    for name, model, images, precision in sides:
        images.require_validation("a layer")
        config = ProbeConfig(pool=model.pool)
        source = NetworkFeatures(model.loaded.model, precision, config=config)
        splits = read_splits(name, source, images, keep=True)
        probed = evaluate_probe(splits, RidgeProbe(), config, device=model.network.device)
        correct.append(probed.correct[probed.result.best_index])
    return "ridge-probe accuracy, %", correct


def _classified(sides: Sequence[Side]) -> tuple[str, list[Tensor]]:
    tuned = [each.model.loaded.finetuned(each.name) for each in sides]
    correct = list[Tensor]()
    for model, side in zip(tuned, sides, strict=True):
        require_classes(side.images, side.model.loaded.classes)
        test, masks = side.images.test, num_masks(model)
        logits = ensemble_logits(model, test.images, masks=masks, seed=0, precision=side.precision)
        predicted, labels = majority_vote(logits.argmax(-1), seed=0), test.labels
        assert labels is not None, "they are labeled"
        correct.append(predicted == labels)
    return "fine-tuned accuracy, %", correct


MEASURES: dict[str, Callable[[Sequence[Side]], tuple[str, list[Tensor]]]] = {
    "loss": _losses,
    "probe": _probed,
    "fine-tuned accuracy": _classified,
}
