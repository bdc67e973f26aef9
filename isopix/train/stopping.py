"""When a training ends early: its loss diverges, or its validation accuracy or loss no longer improves."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from isopix.core.types import Labels
from isopix.data.batches import steps_per_epoch
from isopix.data.dataset import ImageDataset
from isopix.train.config import TrainConfig

WINDOW = 0.01  # of the run's steps: shorter rises are noise
MIN_LOSSES = 5  # in the window
MIN_LOST_FRACTION = 0.25  # of the decrease so far: smaller rises are the noise of a high learning rate
MIN_RISE = 0.1  # of the initial loss: smaller rises are noise on the initial plateau
MIN_NOISE = 2.0  # standard deviations of a single loss: what the lowest of many medians of five may be below
MEDIAN_DIFFERENCE = 0.954  # of two normally distributed losses, in standard deviations
DIFFERENCES = 256  # of successive losses, from which the noise is estimated
PATIENCE = 0.2  # of the run's steps: a rise that ends within them is a recovery

NUM_DEVIATIONS = 2  # standard deviations of the accuracy of a constant prediction
CAUSES = (
    "too few steps (of pre-training, too), a learning rate that is too high or too low (optimizer.lr; try a "
    "third of it, and three times as much), labels that do not match their images, or unsuitable "
    "augmentation (try data.augment=none)"
)


class DivergedError(RuntimeError):
    """The training loss has risen and does not recover; since `step` it has been high."""

    def __init__(self, step: int, loss: float, lowest: float):
        super().__init__(
            f"the training has diverged: since step {step} the loss has not come back (now {loss:.4g}, "
            f"lowest {lowest:.4g}); try a lower optimizer.lr"
        )
        self.step = step


class DivergenceDetector:
    """Reads the log records of a run; raises DivergedError once the loss was high for a fifth of it.

    The median of the last 1% of losses is high while it exceeds its minimum by a quarter of the decrease so
    far, a tenth of the initial loss, and two standard deviations; thresholds are ours (iGPT gives none).
    """

    def __init__(self, steps: int):
        self.steps = steps
        self.initial_loss = self.lowest = math.nan  # before the first record of a loss
        self.recent: deque[tuple[int, float]] = deque()
        self.differences: deque[float] = deque(maxlen=DIFFERENCES)
        self.high_since: int | None = None

    def update(self, record: Mapping[str, Any]) -> None:
        """Add a log record: the first loss is the initial one, and later ones count in training only."""
        name = "total_nats" if "total_nats" in record else "loss_nats"
        if record["kind"] not in ("evaluation", "train") or name not in record:
            return
        if math.isnan(self.initial_loss):
            self.initial_loss = self.lowest = record[name]
        if record["kind"] == "train":
            self._add(record["step"], record[name])

    def check_end(self) -> None:
        """Raise DivergedError if training has ended with a loss more than twice as high as at its start."""
        if self.recent and self.recent[-1][1] > 2 * abs(self.initial_loss):
            raise DivergedError(*self.recent[-1], self.lowest)

    def _add(self, step: int, loss: float) -> None:
        if self.recent and self.high_since is None:
            self.differences.append(abs(loss - self.recent[-1][1]))
        self.recent.append((step, loss))
        while len(self.recent) > MIN_LOSSES and self.recent[0][0] <= step - WINDOW * self.steps:
            self.recent.popleft()
        if len(self.recent) < MIN_LOSSES:
            return
        smoothed = median(loss for _, loss in self.recent)
        threshold = max(
            MIN_LOST_FRACTION * (self.initial_loss - self.lowest),
            MIN_RISE * abs(self.initial_loss),
            MIN_NOISE * median(self.differences) / MEDIAN_DIFFERENCE,
        )
        if smoothed <= self.lowest + threshold:
            self.high_since, self.lowest = None, min(self.lowest, smoothed)
            return
        self.high_since = step if self.high_since is None else self.high_since
        if step - self.high_since >= PATIENCE * self.steps:
            raise DivergedError(self.high_since, loss, self.lowest)


def has_val_accuracy(record: Mapping[str, Any]) -> bool:
    """Return whether a log record is an evaluation with a validation accuracy."""
    return record["kind"] == "evaluation" and record["split"] == "validation" and "accuracy" in record


def best_evaluation(records: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the first evaluation with the highest validation accuracy; None if there is none."""
    return max(filter(has_val_accuracy, records), key=lambda record: float(record["accuracy"]), default=None)


class EarlyStopping:
    """The best validation accuracy, or the lowest loss, so far, its step, and the evaluations since."""

    def __init__(self, patience: int, *, by_accuracy: bool = True):
        self.patience, self.by_accuracy = patience, by_accuracy
        self.best_score, self.best_step, self.evaluations_since_best = -math.inf, 0, 0

    @property
    def best(self) -> str:
        if self.by_accuracy:
            return f"validation accuracy {self.best_score:.1%}"
        return f"validation loss {-self.best_score:.4f} nats"

    def update(self, record: Mapping[str, Any]) -> bool:
        """Add a log record; return whether it is an evaluation better than all before."""
        name = "accuracy" if self.by_accuracy else "loss_nats"
        if record["kind"] != "evaluation" or record["split"] != "validation" or name not in record:
            return False
        score = record[name] if self.by_accuracy else -record[name]
        better = bool(score > self.best_score)
        if better:
            self.best_score, self.best_step = score, record["step"]
        self.evaluations_since_best = 0 if better else self.evaluations_since_best + 1
        return better

    def replay(self, records: Iterable[Mapping[str, Any]]) -> None:
        for record in records:
            self.update(record)

    def rewind(self, step: int, records: Iterable[Mapping[str, Any]]) -> list[str]:
        """Forget the evaluations after a step but the best one; return a note if the best was later."""
        kept = EarlyStopping(self.patience, by_accuracy=self.by_accuracy)
        kept.replay(records)
        self.evaluations_since_best = kept.evaluations_since_best
        if self.best_step <= step:
            return []
        return [
            f"the best weights stay those of step {self.best_step} from before, with {self.best}, "
            "until an evaluation is better"
        ]

    @property
    def should_stop(self) -> bool:
        """Whether patience has run out (iGPT section 3.4: early stopping by validation accuracy)."""
        return self.evaluations_since_best >= self.patience


def chance_level_note(
    record: Mapping[str, Any], config: TrainConfig, data: ImageDataset, *, exhausted: bool
) -> str:
    """Return the `chance_level_warning` once: after an epoch and half of the steps, or at the end."""
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
    """Return a warning if an accuracy is not significantly above the majority class's fraction."""
    count = len(labels)
    majority = labels.bincount().max().item() / count
    noise = NUM_DEVIATIONS * math.sqrt(majority * (1 - majority) / count)
    if accuracy > majority + noise:
        return ""
    return (
        f"validation accuracy {accuracy:.1%} on {count:,} images is not above chance level (majority class "
        f"{majority:.1%}); likely causes: {CAUSES}"
    )
