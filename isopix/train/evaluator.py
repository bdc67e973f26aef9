"""Evaluators: metrics of the model during training, computed at regular intervals."""

import abc
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch

from isopix.core.device import Precision, autocast
from isopix.core.measurement import Measurement
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.registry import Part, register
from isopix.core.types import Images, Labels
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import measurement_of
from isopix.data.splits import Split
from isopix.model.network import Network, evaluation_mode
from isopix.objectives.base import PretrainModel
from isopix.storage.run_folder import RunFolder
from isopix.train.tasks import EvaluationTask, Metric

BATCH_SIZE = 16  # images per batch; not a setting, as the random draws of an evaluation depend on it

Metrics = Mapping[str, int | float]  # by name, for one line of the log
Evaluator = Callable[[int], Metrics]  # called with the step that the training has reached


class EvaluationError(RuntimeError):
    """An evaluation that failed; the trainer logs it as a note and continues."""


class EvaluationContext(NamedTuple):
    """What an evaluator has access to: the model in training, with its own task, and the images."""

    task: EvaluationTask
    model: PretrainModel
    data: ImageDataset
    seed: int
    precision: Precision
    folder: RunFolder | None = None  # of the run, if it has one

    @property
    def history(self) -> Path | None:
        """A folder where it may write a file per step, `step-00000100.json`; ask for it at each step, since a
        run gets its name when step 0 has been saved.
        """
        return None if self.folder is None else self.folder.history

    @property
    def network(self) -> Network:
        return self.model.network


class EvaluatorSpec(Part, noun="evaluator"):
    """Settings of an evaluator, which runs before the first step, every `every` steps and after the last.

    With `every` None it runs at every evaluation: every `train.evaluate_every` steps, and whenever an
    evaluator with an interval of its own does.
    """

    may_fail: ClassVar[bool] = True  # whether training goes on, with a note in the log, where it fails

    every: int | None = None
    """Steps between evaluations; null: as `evaluate_every`."""

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise ValueError(f"every {self.every} must be at least 1, or null for every evaluation")

    def check_data(self, data: ImageDataset) -> None:
        """Raises ValueError for a dataset on which the metrics are undefined."""

    def measurement(self, data: ImageDataset) -> Measurement:
        """Return the record of the metrics: all validation images, unless an evaluator says otherwise."""
        return measurement_of(data, "validation")

    @abc.abstractmethod
    def start(self, context: EvaluationContext) -> Evaluator:
        """Return the function that evaluates the model as it is when called.

        The model is then in evaluation mode, without gradients. The function may not draw from PyTorch's
        global generator. It returns finite numbers by names that no other evaluator uses; what it raises, and
        what is no finite number, is a note in the log, for an EvaluationError its text alone.
        """


@register("held_out_loss")
class HeldOutLoss(EvaluatorSpec):
    """The metrics of the task, each a mean over validation images."""

    may_fail: ClassVar[bool] = False

    num_images: int | None = 1024
    """Validation images; null: all."""

    def label(self) -> str:
        return "evaluation"

    def measurement(self, data: ImageDataset) -> Measurement:
        return measurement_of(data, "validation", data.validation.sample(self.num_images))

    def start(self, context: EvaluationContext) -> Evaluator:
        split = context.data.validation.sample(self.num_images)

        def evaluate(step: int) -> Metrics:
            if not len(split):
                return {}
            metrics = evaluate_split(context.task, split, seed=context.seed, precision=context.precision)
            return {"images": len(split), "available_images": split.available, **metrics}

        return evaluate


def evaluate_split(
    task: EvaluationTask,
    split: Split,
    *,
    seed: int,
    precision: Precision,
    observe: Callable[[Mapping[str, Metric]], None] = lambda metrics: None,
) -> dict[str, float]:
    """Return the metrics of a task, each the mean over the images of a split.

    Random masks depend on `seed` and the number of the batch alone, so that they are the same at every
    evaluation. `observe` is called with the metrics of each batch.
    """
    device = next(task.module.parameters()).device
    totals: defaultdict[str, float] = defaultdict(float)
    done = 0
    with evaluation_mode(task.module), torch.no_grad(), track("evaluating images", len(split)) as count:
        for images, labels, own in evaluation_batches(split, seed, device):
            with autocast(device, precision):
                metrics = task.evaluate(images, labels, own)
            for name, value in metrics.items():
                totals[name] += float(value.mean()) * len(images)
            observe(metrics)
            done += len(images)
            count(done)
    return {name: total / len(split) for name, total in totals.items()}


def evaluation_batches(
    split: Split, seed: int, device: torch.device
) -> Iterator[tuple[Images, Labels | None, torch.Generator]]:
    """Yield the batches of an evaluation, each with the generator of its random masks."""
    for number, start in enumerate(range(0, len(split), BATCH_SIZE)):
        images = split.images[start : start + BATCH_SIZE].to(device)
        labels = None if split.labels is None else split.labels[start : start + BATCH_SIZE].to(device)
        yield images, labels, generator(seed, "evaluation", number)
