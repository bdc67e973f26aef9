"""The one training loop: pre-training and fine-tuning differ by their task alone."""

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from isopix.core.random import generator, seeded
from isopix.data.batches import Batches
from isopix.model.evaluation_mode import evaluation_mode
from isopix.train.config import TrainConfig
from isopix.train.evaluator import EvaluationContext, EvaluationError, EvaluatorSpec
from isopix.train.tasks import TrainingTask
from isopix.train.throughput import Throughput
from isopix.train.train_step import TrainStep

Record = dict[str, Any]  # a line of the log
WATCH_EVERY = 20  # steps between reports of the loss of every step; each waits for a GPU
MAX_SHOWN = 60  # characters of a wrong value in a note


class Callbacks(NamedTuple):
    """What the trainer calls: `log` with every record, `save` with the step and the state of the optimizer,
    `should_stop` after every step and every evaluation, and `watch` every few steps and before `save`, with
    the step and the minimized losses of all steps since its last call.
    """

    log: Callable[[Record], None]
    save: Callable[[int, dict[str, Tensor]], None]
    should_stop: Callable[[], bool] = lambda: False
    watch: Callable[[int, Sequence[float]], None] = lambda step, losses: None


class Trainer:
    """Trains a task: steps, log records, evaluations, checkpoints and stops.

    Every number depends on (seed, step) and the weights alone, so that a run that is stopped and resumed
    equals one that is not. Raises what `start` of an evaluator raises.
    """

    def __init__(
        self,
        task: TrainingTask,
        config: TrainConfig,
        *,
        batches: Batches,
        evaluators: Sequence[EvaluatorSpec],
        context: EvaluationContext,
        callbacks: Callbacks,
    ):
        self.task, self.config, self.batches, self.callbacks = task, config, batches, callbacks
        self.evaluators = [(spec, spec.start(context)) for spec in evaluators]
        self.train_step = TrainStep(
            task,
            config.optimizer,
            accumulate=config.accumulate,
            precision=config.precision,
            compiled=config.compile,
            max_grad_norm=config.max_grad_norm,
        )
        self.step, self.stopped, self.restored = 0, False, False
        self.watched: list[Tensor] = []  # losses on the device
        self.watch_every = 1 if self.train_step.device.type == "cpu" else WATCH_EVERY
        self.throughput = Throughput(batches.batch_size)

    def restore(self, step: int, *, seconds: float, optimizer: dict[str, Tensor]) -> None:
        """Continue from a checkpoint at `step`, after `seconds` of training; the task has its weights."""
        self.step, self.throughput.seconds, self.restored = step, seconds, True
        self.train_step.load(optimizer)

    def run(self) -> int:
        """Train to `config.steps`, or until asked to stop; save, and return the step reached.

        Raises NonFiniteError before a weight has changed.
        """
        if not self.restored:
            with self.throughput.exclude():
                self.maybe_evaluate()
                self.callbacks.save(0, self.train_step.state())
        while self.step < self.config.steps and not self.stopped:
            self.advance()
        return self.step

    def advance(self) -> None:
        """Train for one step, then log, evaluate and save what is due."""
        config, batches = self.config, self.batches
        images, labels = batches.batch(self.step)
        batch = self.task.make_batch(images, labels, generator(config.seed, "problem", self.step))
        lr_factor = config.schedule.factor(self.step, steps=config.steps, epoch=batches.steps_per_epoch)
        self.step += 1
        with seeded(config.seed, "dropout", self.step, self.train_step.device):
            losses = self.train_step(batch, step=self.step, lr_factor=lr_factor)
        self.watched.append(next(iter(losses.values())))
        self.throughput.count_step()
        self.stopped = self.callbacks.should_stop()
        last = self.stopped or self.step == config.steps
        if last or self.step % config.log_every == 0:
            self.train_step.check()
            learning_rate = self.train_step.peak_lr * lr_factor
            values = {name: float(loss) for name, loss in losses.items()}
            self.callbacks.log(self.throughput.record(self.step, values, learning_rate))
        elif self.train_step.device.type == "cpu":
            self.train_step.check()
        with self.throughput.exclude():
            if self.maybe_evaluate():
                self.stopped = self.stopped or self.callbacks.should_stop()  # early stopping
            saves = last or self.stopped or self.step % config.checkpoint_every == 0
            if saves or self.step % self.watch_every == 0:
                self._report_losses()
            if saves:
                self.train_step.check()
                self.callbacks.save(self.step, self.train_step.state())

    def _report_losses(self) -> None:
        """Call `watch` with the losses of the steps since the last call; waits for the device."""
        if self.watched:
            self.train_step.check()
            values: list[float] = torch.stack(self.watched).tolist()
            self.watched.clear()
            self.callbacks.watch(self.step, values)

    def maybe_evaluate(self) -> bool:
        """Run the evaluators that are due, all at the first and the last step; return whether any was.

        What an evaluator does wrong is a note in the log and not the end of training. Raises ValueError
        before the first step for two metrics of one name, and what an evaluator that may not fail raises.
        """
        step, at_end = self.step, self.step in (0, self.config.steps)
        own = {spec.every for spec, _ in self.evaluators if spec.every is not None}
        if not (at_end or any(step % every == 0 for every in (self.config.evaluate_every, *own))):
            return False
        metrics: dict[str, int | float] = {}
        notes = list[str]()
        with evaluation_mode(self.task.module), torch.no_grad():
            for spec, evaluate in self.evaluators:
                if spec.every is None or at_end or step % spec.every == 0:
                    try:
                        notes += _add_metrics(metrics, evaluate(step), spec, step)
                    except Exception as error:
                        if not spec.may_fail or isinstance(error, DuplicateMetricError):
                            raise
                        notes.append(f"no {spec.label()} at step {step}: {_cause(error)}")
        if metrics:
            self.callbacks.log({"kind": "evaluation", "step": step, "split": "validation", **metrics})
        for text in notes:
            self.callbacks.log({"kind": "note", "step": step, "text": text})
        return True


class DuplicateMetricError(ValueError):
    """A metric of a name that the log record has already, found before the first step."""


def _add_metrics(metrics: dict[str, int | float], found: object, spec: EvaluatorSpec, step: int) -> list[str]:
    """Add what an evaluator returned, and return a note for each part of it that is no metric.

    Raises ValueError for one of an evaluator that may not fail, and DuplicateMetricError before the first
    step.
    """
    notes = list[str]()
    if not isinstance(found, Mapping):
        notes.append(f"returns {_shown(found)}; allowed: a dict of finite numbers by name")
        found = {}
    for name, value in found.items():
        if name in metrics or name in {"kind", "step", "split"}:
            notes.append(f"returns '{name}', which the log record has already")
            if step == 0:
                raise DuplicateMetricError(f"evaluator '{spec.kind}' {notes[-1]}")
        elif not isinstance(name, str):
            notes.append(f"returns a metric named {_shown(name)}; allowed: strings")
        elif not isinstance(value, Real) or not math.isfinite(value):
            notes.append(f"returns {_shown(value)} for '{name}'; allowed: finite numbers")
        else:
            metrics[name] = int(value) if isinstance(value, Integral) else float(value)
    notes = [f"evaluator '{spec.kind}' {text} (step {step})" for text in notes]
    if notes and not spec.may_fail:
        raise ValueError(notes[0])
    return notes


def _shown(value: object) -> str:
    """A value in one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _cause(error: Exception) -> str:
    """An error in one line, with its place in the code unless it was raised to be read."""
    text = " ".join(str(error).split())
    if isinstance(error, EvaluationError):
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} ({Path(place.filename).name}, line {place.lineno})"
