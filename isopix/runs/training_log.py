"""The log of a run in training: appended, shown, copied to loggers, and rewound to a checkpoint."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from isopix.core import ranks
from isopix.core.device import describe_device, peak_flops
from isopix.core.progress import open_bar
from isopix.core.text import count_of
from isopix.probing.evaluators import KNNAccuracy, LinearProbe
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe
from isopix.runs.loggers import RunLogger
from isopix.runs.state import read_environment
from isopix.storage.log import RunLog, iterate_log, read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.config import TrainConfig
from isopix.train.evaluator import EvaluatorSpec, HeldOutLoss
from isopix.train.stopping import DivergenceDetector
from isopix.train.throughput import TrainingDisplay
from isopix.train.trainer import Record


class RunObserver(NamedTuple):
    """Follows a run: `record` is called with every log record, `stop` after every step."""

    shown: bool = True
    record: Callable[[Record], None] = lambda record: None
    stop: Callable[[], bool] = lambda: False
    loggers: Sequence[str] = ()


class TrainingLog(RunLog):
    """The open log of a run, after the lines of `step`; later ones of an earlier process are deleted."""

    def __init__(
        self,
        folder: RunFolder,
        recipe: Recipe,
        device: torch.device,
        observer: RunObserver,
        *,
        step: int,
        record: Callable[[Record], None],
    ):
        super().__init__(folder.log)
        self.folder, self.steps, self.observer = folder, recipe.train.steps, observer
        names = dict.fromkeys(observer.loggers if folder.saved_at is None else ())  # the rank that saves it
        self._loggers = [RunLogger(name, folder, record) for name in names]
        self._display = _open_display(recipe, folder, step, device) if observer.shown else None
        self.rewind(step)

    def write(self, record: Record) -> None:
        """Write a record. Raises DivergedError if the training loss has risen and does not recover."""
        super().write(record)
        for each in self._loggers:
            each.write(record, self.read)
        self.divergence.update(record)
        if self._display:
            self._display.show(record)
        self.observer.record(record)

    def read(self) -> list[Record]:
        return read_log(self.folder.log)

    def has(self, kind: str, split: str | None = None) -> bool:
        records = iterate_log(self.folder.log, kind)
        return any(split in (None, each.get("split")) for each in records)

    def total(self, name: str) -> float:
        return max((each.get(name, 0.0) for each in self.read()), default=0.0)

    def rewind(self, step: int) -> None:
        """Delete what was written of later steps, here and in the history of probes."""
        self.truncate_after(step)
        for each in self._loggers:
            each.close()
        for path in self.folder.history.glob("step-*.json"):
            if int(path.stem.removeprefix("step-")) > step:
                path.unlink()
        self.divergence = DivergenceDetector(self.steps)
        for record in self.read():
            self.divergence.update(record)

    def close(self) -> None:
        if self._display:
            self._display.close()
        loggers, self._loggers = self._loggers, []  # a note of one that fails does not open another
        for each in loggers:
            each.close()
        super().close()


def _open_display(
    recipe: Recipe, folder: RunFolder, step: int, device: torch.device
) -> TrainingDisplay | None:
    bar, train = open_bar(), recipe.train
    if bar is None:
        return None
    title = f"{recipe.name}, from step {step} of {train.steps}" if step else _title(recipe, folder)
    flops, peak = recipe_cost(recipe).training_flops, peak_flops(device, train.precision_on(device))
    count = ranks.num_ranks()
    return TrainingDisplay(
        bar,
        f"{title}, " + f"{count} × " * (count > 1) + describe_device(device),
        train.steps,
        flops=flops,
        peak=peak and peak * count,
    )


def _title(recipe: Recipe, folder: RunFolder) -> str:
    origin, train = " from scratch" if recipe.finetune else "", recipe.train
    if pretrained := read_environment(folder).pretrained:
        origin = f" from step {pretrained.step} of {os.path.relpath(pretrained.run)}"
    work = f"{count_of(train.steps, 'step')}, batch size {train.batch_size}, {train.optimizer.label()}"
    augment = f", augmentation: {recipe.data.augment.label()}" if recipe.finetune else ""
    return f"{recipe.name}{origin} on {recipe.data.source}, {work}{augment}"


def evaluator_specs(config: TrainConfig) -> tuple[EvaluatorSpec, ...]:
    """Return the evaluators of a run: the held-out loss, those of shorthand settings, and `evaluators`."""
    knn = [KNNAccuracy(num_images=config.knn_images)] if config.knn_images else []
    probes = [LinearProbe(every=config.probe_every)] if config.probe_every else []
    return (HeldOutLoss(num_images=config.evaluate_images), *knn, *probes, *config.evaluators)


def validation_measurement(log: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the measurement record of the validation losses and accuracies in a log; empty without one."""
    found = (each["measurement"] for each in log if each.get("evaluator") == HeldOutLoss.kind)
    return dict(next(found, {}))


def decoder_fits(recipe: Recipe, step: int, run: RunFolder, *, initially: bool) -> bool:
    """Return whether the decoder fits the backbone: again once the loss is below the unigram baseline."""
    if step == 0:
        return initially
    if initially or not recipe.predicts_codes:
        return recipe.predicts_codes
    records = read_log(run.log)
    evaluations = (each for each in records if each.get("split") == "validation")
    losses = [each["loss_nats"] for each in evaluations if "loss_nats" in each]
    unigram = unigram_nats(records)
    return bool(losses) and unigram is not None and losses[-1] < unigram


def unigram_nats(records: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the unigram baseline of the validation images, in nats per predicted code, if a log has it."""
    found = (
        each["nats"].get("unigram")
        for each in records
        if each["kind"] == "baselines" and each["held_out"] == "validation"
    )
    return next(found, None)
