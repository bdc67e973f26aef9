"""Evaluators: metrics of the model in training at regular intervals; learning-free baselines beside them."""

import abc
import math
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch

from isopix.core.choices import Count
from isopix.core.device import Precision, autocast
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.registry import Part, register
from isopix.core.types import Images, Labels
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import measurement_of
from isopix.data.splits import Split
from isopix.model.heads import HeadSpec
from isopix.model.network import Network, evaluation_mode
from isopix.objectives.base import PretrainModel
from isopix.objectives.baselines import MaskedCodes, Unigram
from isopix.storage.result import Measurement
from isopix.storage.run_folder import RunFolder
from isopix.train.tasks import Metric, TrainingTask

BATCH_SIZE = 16  # images per batch; not a setting, as the random draws of an evaluation depend on it
TRAINING_IMAGES = 4096  # at most, to count codes in for baselines
MAX_CODES = 2**25  # of all held-out images of baselines: 32,768 of 32x32 pixels, 8,192 of 64x64

Metrics = Mapping[str, int | float]  # by name, for one line of the log
Evaluator = Callable[[int], Metrics]  # called with the step that the training has reached


class EvaluationError(RuntimeError):
    """An evaluation that failed; the trainer logs it as a note and continues."""


class EvaluationContext(NamedTuple):
    """What an evaluator has access to: the model in training, with its own task, and the images."""

    task: TrainingTask
    model: PretrainModel
    data: ImageDataset
    seed: int
    precision: Precision
    folder: RunFolder | None = None  # of the run, if it has one

    @property
    def network(self) -> Network:
        return self.model.network


class EvaluatorSpec(Part, noun="evaluator"):
    """Settings of an evaluator, run before the first step, every `every` steps, and after the last; if None,
    every `train.evaluate_every` steps, and whenever another runs.
    """

    may_fail: ClassVar[bool] = True  # whether training goes on, with a note in the log, where it fails

    every: Count | None = None
    """Steps between evaluations; null: as `evaluate_every`."""

    def check_data(self, data: ImageDataset) -> None:
        """Raises ValueError for a dataset on which the metrics are undefined."""

    def measurement(self, data: ImageDataset) -> Measurement:
        """Return the record of the metrics: all validation images, unless an evaluator says otherwise."""
        return measurement_of(data, "validation")

    @abc.abstractmethod
    def start(self, context: EvaluationContext) -> Evaluator:
        """Return the function that evaluates the model as it is when called.

        It may not draw from PyTorch's global generator. It returns finite numbers by names of its own; what
        it raises, and the first that is not finite, is a note in the log.
        """


@register("held_out_loss", "evaluation")
class HeldOutLoss(EvaluatorSpec):
    """The metrics of the task, each a mean over validation images."""

    may_fail: ClassVar[bool] = False

    num_images: int | None = 1024
    """Validation images; null: all."""

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
    task: TrainingTask,
    split: Split,
    *,
    seed: int,
    precision: Precision,
    observe: Callable[[Mapping[str, Metric]], None] = lambda metrics: None,
) -> dict[str, float]:
    """Return the metrics of a task, each the mean over the images of a split.

    Random masks depend on `seed` and the batch's number alone. `observe` gets the metrics of each batch.
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


def measure_baselines(
    model: PretrainModel, head: HeadSpec, train: Split, held_out: Mapping[str, Split], *, seed: int
) -> dict[str, dict[str, Any]]:
    """Return for each split the loss of every baseline, `nats`, in mean nats per predicted code.

    Images and masks are those of `evaluate_split`, of a split with more than MAX_CODES codes the first ones.
    """
    codec = model.network.codec
    chosen = [each for each in model.objective.baselines if each.applies(codec, head)]
    if not chosen or not len(train):
        return {}
    counted, unigram = train.sample(TRAINING_IMAGES), Unigram(codec, head)
    fitted = [each(codec, head) for each in chosen]
    for batch in code_batches(model, counted, seed):
        for each in (unigram, *fitted):
            each.fit(batch)
    most = max(1, MAX_CODES // (codec.grid.positions * codec.num_codes * BATCH_SIZE)) * BATCH_SIZE
    records = {}
    for name, split in held_out.items():
        images = split if len(split) <= most else split.select(torch.arange(most))
        for batch in code_batches(model, images, seed):
            for baseline in fitted:
                baseline.update(batch)
        if len(images):
            nats = {baseline.name: baseline.pop_nats() for baseline in fitted}
            numbers = {"images": len(images), "train_images": len(counted)}
            records[name] = {**numbers, "modes": unigram.modes, "nats": nats}
    return records


def code_batches(model: PretrainModel, split: Split, seed: int) -> Iterator[MaskedCodes]:
    """Yield the codes and masks of the batches of an evaluation of a split."""
    codec = model.network.codec
    for images, _, own in evaluation_batches(split, seed, model.network.device):
        yield model.objective.make_batch(images, codec, own).masked_codes(codec)


class Evaluations:
    """The evaluators of a training. Raises what `start` of an evaluator raises."""

    def __init__(self, specs: Sequence[EvaluatorSpec], context: EvaluationContext, *, steps: int, every: int):
        self.evaluators = [(spec, spec.start(context)) for spec in specs]
        self.module, self.steps = context.task.module, steps
        self.intervals = (every, *{spec.every for spec in specs if spec.every is not None})

    def is_due(self, step: int) -> bool:
        """Return whether any evaluator runs at a step: all run at the first and the last one."""
        return step in (0, self.steps) or any(step % every == 0 for every in self.intervals)

    def run(self, step: int) -> list[dict[str, Any]]:
        """Run the evaluators that are due at a step, and return records for the log: errors are notes."""
        metrics: dict[str, int | float] = {}
        notes = list[str]()
        with evaluation_mode(self.module), torch.no_grad():
            for spec, evaluate in self.evaluators:
                if spec.every is None or step in (0, self.steps) or step % spec.every == 0:
                    try:
                        _add_metrics(metrics, evaluate(step), spec.kind)
                    except Exception as error:
                        if not spec.may_fail:
                            raise
                        notes.append(f"no {spec.label()} at step {step}: {_cause(error)}")
        evaluation = {"kind": "evaluation", "step": step, "split": "validation", **metrics}
        records = [{"kind": "note", "step": step, "text": text} for text in notes]
        return [evaluation, *records] if metrics else records


class NonFiniteMetricError(ValueError):
    """A metric that is inf or nan."""


def _add_metrics(metrics: dict[str, int | float], found: Any, kind: str) -> None:
    for name, value in found.items():
        if name in {*metrics, "kind", "step", "split"}:
            returned = f"evaluator '{kind}' returns '{name}'"
            raise EvaluationError(f"{returned}, which the log record has already")
        if not math.isfinite(value):
            raise NonFiniteMetricError(f"the validation metric '{name}' of evaluator '{kind}'")
        metrics[str(name)] = int(value) if isinstance(value, Integral) else float(value)


def _cause(error: Exception) -> str:
    """An error in one line, with its place in the code unless it was raised to be read."""
    text = " ".join(str(error).split())
    if isinstance(error, NonFiniteMetricError):
        return f"{text} is not finite"
    if isinstance(error, EvaluationError):
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} ({Path(place.filename).name}, line {place.lineno})"
