"""Early stopping: the best evaluation of a fine-tuning run, and whether it is above chance."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from isopix.core.types import Labels
from isopix.data.batches import steps_per_epoch
from isopix.data.dataset import ImageDataset
from isopix.train.config import TrainConfig

NUM_DEVIATIONS = 2  # standard deviations of the accuracy of a constant prediction
CAUSES = (
    "a learning rate that is too high or too low (optimizer.lr; try a third of it, and three times as much), "
    "labels that do not match their images, or unsuitable augmentation (try data.augment=none)"
)


def has_val_accuracy(record: Mapping[str, Any]) -> bool:
    """Return whether a log record is an evaluation with a validation accuracy."""
    return record["kind"] == "evaluation" and record["split"] == "validation" and "accuracy" in record


def best_evaluation(records: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the first evaluation with the highest validation accuracy; None if there is none."""
    return max(filter(has_val_accuracy, records), key=lambda record: float(record["accuracy"]), default=None)


class EarlyStopping:
    """The best validation accuracy so far, its step, and the number of evaluations since."""

    def __init__(self, patience: int):
        self.patience = patience
        self.best_accuracy, self.best_step, self.evaluations_since_best = -1.0, 0, 0

    def update(self, record: Mapping[str, Any]) -> bool:
        """Add a log record; return whether it is an evaluation better than all before."""
        if not has_val_accuracy(record):
            return False
        better = bool(record["accuracy"] > self.best_accuracy)
        if better:
            self.best_accuracy, self.best_step = record["accuracy"], record["step"]
        self.evaluations_since_best = 0 if better else self.evaluations_since_best + 1
        return better

    def replay(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add the records of an earlier process."""
        for record in records:
            self.update(record)

    def rewind(self, step: int, records: Iterable[Mapping[str, Any]]) -> list[str]:
        """Forget the evaluations after a step but the best one, whose weights are saved; `records` are those
        up to the step. Return a note if the best one was later.
        """
        best_accuracy, best_step = self.best_accuracy, self.best_step
        self.best_accuracy, self.best_step, self.evaluations_since_best = -1.0, 0, 0
        self.replay(records)
        if best_step <= step:
            return []
        self.best_accuracy, self.best_step = best_accuracy, best_step
        return [
            f"the best weights stay those of step {best_step} from before, with validation accuracy "
            f"{best_accuracy:.1%}, until an evaluation is better"
        ]

    @property
    def should_stop(self) -> bool:
        """Whether patience has run out (iGPT section 3.4: early stopping by validation accuracy)."""
        return self.evaluations_since_best >= self.patience


def chance_level_note(
    record: Mapping[str, Any], config: TrainConfig, data: ImageDataset, *, exhausted: bool
) -> str:
    """Return the warning of `chance_level_warning` for a log record that is the first validation after an
    epoch and half of the steps, or the last one, with patience `exhausted`; empty otherwise.
    """
    if not has_val_accuracy(record):
        return ""
    epoch = steps_per_epoch(len(data.train), config.batch_size)
    needed, step = min(config.steps, max(config.steps // 2, epoch)), record["step"]
    previous = (step - 1) // config.evaluate_every * config.evaluate_every  # validation before this one
    labels = data.validation.sample(record["images"]).labels
    assert labels is not None, "it has a validation accuracy"
    due = exhausted or previous < needed <= step
    return chance_level_warning(record["accuracy"], labels) if due else ""


def chance_level_warning(accuracy: float, labels: Labels) -> str:
    """Return a warning with likely causes if the accuracy is not significantly above the majority class's
    fraction; empty otherwise.
    """
    count = len(labels)
    majority = labels.bincount().max().item() / count
    noise = NUM_DEVIATIONS * math.sqrt(majority * (1 - majority) / count)
    if accuracy > majority + noise:
        return ""
    return (
        f"validation accuracy {accuracy:.1%} on {count:,} images is not above chance level (majority class "
        f"{majority:.1%}); likely causes: {CAUSES}"
    )
