"""What the losses and accuracies of a training run are measured on, and their baselines, as log records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from isopix.data.dataset import ImageDataset
from isopix.objectives.base import PretrainModel
from isopix.probing.evaluators import KNNAccuracy, LinearProbe
from isopix.recipes.recipe import Recipe
from isopix.train.baselines import measure_baselines
from isopix.train.config import TrainConfig
from isopix.train.evaluator import EvaluatorSpec, HeldOutLoss


def evaluator_specs(config: TrainConfig) -> tuple[EvaluatorSpec, ...]:
    """Return the evaluators of a run: the held-out loss, those of shorthand settings, and `evaluators`."""
    specs: list[EvaluatorSpec] = [HeldOutLoss(num_images=config.evaluate_images)]
    if config.knn_images:
        specs.append(KNNAccuracy(num_images=config.knn_images))
    if config.probe_every:
        specs.append(LinearProbe(every=config.probe_every))
    return (*specs, *config.evaluators)


def evaluator_measurements(
    evaluators: Sequence[EvaluatorSpec], data: ImageDataset
) -> Iterator[dict[str, Any]]:
    """Yield the record of each evaluator that has images, with its `measurement`."""
    for spec in evaluators:
        measurement = spec.measurement(data)
        if measurement.images:
            text = f"{spec.label()}: {measurement.line}"
            record = {"kind": "measurement", "step": 0, "evaluator": spec.kind, "text": text}
            yield {**record, "measurement": measurement}


def validation_measurement(log: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the measurement record of the validation losses and accuracies in a log; empty without one."""
    found = (each["measurement"] for each in log if each.get("evaluator") == HeldOutLoss.kind)
    return dict(next(found, {}))


def baseline_records(model: PretrainModel, recipe: Recipe, data: ImageDataset) -> Iterator[dict[str, Any]]:
    """Yield the learning-free baselines on the validation and the test images of a run, named `held_out`."""
    config = recipe.train
    held_out = {
        "validation": data.validation.sample(config.evaluate_images),
        "test": data.test.sample(config.num_test_images),
    }
    found = measure_baselines(model, recipe.model.head, data.train, held_out, seed=config.seed)
    for split, numbers in found.items():
        yield {"kind": "baselines", "held_out": split, **numbers}
