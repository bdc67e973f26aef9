"""Numbers of a run for tables and headlines: losses, images seen, test accuracy."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from isopix.core.measurement import Measurement
from isopix.core.stats import wilson_interval
from isopix.data.measurement import differences
from isopix.reporting.run_record import RunRecord, Values
from isopix.train.evaluator import HeldOutLoss


class MeanLoss(NamedTuple):
    """The newest mean loss on images outside of training."""

    nats: float
    images: int
    split: str
    data: str = ""  # where they are not the run's own
    measurement: Measurement | None = None

    @property
    def bits(self) -> float:
        return self.nats / math.log(2)

    @property
    def where(self) -> str:
        """The images, as `64 of 450 test images of digits`."""
        if self.measurement:
            return self.measurement.count
        return f"{self.images:,} {self.split} images{f' of {self.data}' if self.data else ''}"


class BaselineLosses(NamedTuple):
    """The losses of learning-free baselines by name, on images of a split."""

    nats: dict[str, float]
    images: int
    split: str

    @property
    def best(self) -> str:
        """The name of the baseline with the lowest loss."""
        return min(self.nats, key=lambda name: self.nats[name])


class FineTuneAccuracy(NamedTuple):
    """The test accuracy of a fine-tuned run with its 95 % interval."""

    accuracy: float
    low: float
    high: float
    images: int
    measurement: Measurement | None = None
    step: int | None = None  # of the weights

    @property
    def images_text(self) -> str:
        """The number of images, as `64` or `64 of 450`."""
        available = self.measurement.available if self.measurement else self.images
        return f"{self.images:,}" if available == self.images else f"{self.images:,} of {available:,}"


def loss_key(run: RunRecord) -> str:
    """Return the name of the loss in the log: that of codes, or of classes where only they are learned."""
    return "loss_nats" if run.predicts_codes else "class_nats"


def loss_unit(run: RunRecord) -> str:
    """Return what a loss is averaged over, as `masked pixel`; `image` if only classes are learned."""
    if not run.predicts_codes:
        return "image"
    if run.recipe is None:
        return "predicted code"
    return f"{'' if run.recipe.objective.can_sample else 'masked '}{run.recipe.model.codec.unit()}"


def held_out_loss(run: RunRecord) -> MeanLoss | None:
    """Return the test loss, or else the newest validation loss, or else that of `isopix verify` on the most
    images.

    The loss is that of codes, or of classes where only they are learned.
    """
    name = loss_key(run)
    for split in ("test", "validation"):
        found = [each for each in run.log if each.get("split") == split and name in each]
        if found:
            return MeanLoss(
                float(found[-1][name]),
                int(found[-1]["images"]),
                split,
                measurement=_logged_measurement(run, found[-1]),
            )
    if run.predicts_codes and run.verifications:
        fullest = max(run.verifications, key=lambda each: (each.images, each.step, each.call["written"]))
        return MeanLoss(fullest.loss_nats, fullest.images, "test", fullest.data, fullest.measurement)
    return None


def _logged_measurement(run: RunRecord, record: Values) -> Measurement | None:
    """Return the measurement record of an evaluation in the log; on validation, that of its evaluator."""
    evaluators = (each for each in run.log if each.get("evaluator") == HeldOutLoss.kind)
    found = next(evaluators, {}) if record["split"] == "validation" else record
    return Measurement.from_dict(found["measurement"]) if "measurement" in found else None


def baseline_losses(run: RunRecord) -> BaselineLosses | None:
    """Return the learning-free baselines on the split of the held-out loss; None if not logged."""
    loss = held_out_loss(run)
    for each in run.log:
        if loss and each["kind"] == "baselines" and each.get("held_out") == loss.split and not loss.data:
            nats = {str(name): float(value) for name, value in each["nats"].items()}
            return BaselineLosses(nats, int(each["images"]), loss.split)
    return None


def vocab_size(run: RunRecord) -> int | None:
    """Return K, the number of values of a code; None where it is not known."""
    return None if run.recipe is None else run.recipe.model.codec.placeholder(run.recipe.grid).vocab_size


def uniform_classes(run: RunRecord) -> int | None:
    """Return the number of values of a uniform prediction, codes or classes; None for a regression."""
    if not run.predicts_codes:
        return (run.weights.classes if run.weights else 0) or None
    return vocab_size(run) if run.recipe is None or run.recipe.model.head.categorical else None


def num_steps(run: RunRecord) -> int:
    """Return the number of training steps."""
    return max((each["step"] for each in run.log), default=run.weights.step if run.weights else 0)


def images_seen(run: RunRecord) -> int:
    """Return the number of training images, repetitions included; without a log by the weights' step."""
    logged = [int(each["images"]) for each in run.log if each["kind"] == "train"]
    unlogged = run.weights.step * run.recipe.train.batch_size if run.weights and run.recipe else 0
    return max(logged, default=unlogged)


def epochs(run: RunRecord) -> float | None:
    """Return how often the training images were seen; None where their number is not known."""
    train = (run.environment.get("images") or {}).get("train")
    return images_seen(run) / train if train else None


def format_epochs(count: float) -> str:
    """Return a number of epochs with enough digits to differ from 0."""
    return f"{count:,.1f}" if count >= 1 else f"{count:.2g}" if count >= 0.01 else "less than 0.01"


def finetune_accuracy(run: RunRecord) -> FineTuneAccuracy | None:
    """Return the test accuracy of a fine-tuned run; None before its test evaluation."""
    tested = [each for each in run.log if each.get("split") == "test" and "accuracy" in each]
    if not tested:
        return None
    last = tested[-1]
    accuracy, count = float(last["accuracy"]), int(last["images"])
    low, high = last.get("interval") or wilson_interval(accuracy, count)
    return FineTuneAccuracy(accuracy, low, high, count, _logged_measurement(run, last), last["step"])


def finetune_differences(runs: Mapping[str, RunRecord]) -> list[str]:
    """Return in what the test accuracies of fine-tuned runs differ that keeps them from being compared."""
    tested = [found for run in runs.values() if (found := finetune_accuracy(run))]
    return differences([each.measurement for each in tested])
