"""The one training loop: pre-training and fine-tuning differ by their task alone."""

import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from isopix.core.random import generator, seeded
from isopix.core.types import Scalar
from isopix.data.batches import Batches
from isopix.model.evaluation_mode import evaluation_mode
from isopix.train.config import TrainConfig
from isopix.train.evaluator import EvaluationContext, EvaluationError, EvaluatorSpec
from isopix.train.tasks import TrainingTask
from isopix.train.throughput import Throughput
from isopix.train.train_step import NonFiniteError, TrainStep

Record = dict[str, Any]  # a line of the log
WATCH_EVERY = 20  # steps between reports of the loss of every step; each waits for a GPU
MAX_SHOWN = 60  # characters of a wrong value in a note
LOSS = "the loss or its gradient"
MAX_RECOVERIES = 10  # skipped steps in a row, or rollbacks to one checkpoint: more is no accident


class Callbacks(NamedTuple):
    """What the trainer calls: `log` with every record, `save` with the step and the state of the optimizer,
    `should_stop` after every step and every evaluation, and `watch` every few steps and before `save`, with
    the step and the minimized losses of all steps since its last call; `roll_back` loads the weights of the
    last checkpoint, forgets what was logged since, and returns its step and the state of the optimizer.
    """

    log: Callable[[Record], None]
    save: Callable[[int, dict[str, Tensor]], None]
    should_stop: Callable[[], bool] = lambda: False
    watch: Callable[[int, Sequence[float]], None] = lambda step, losses: None
    roll_back: Callable[[], tuple[int, dict[str, Tensor]]] | None = None


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
            skip=config.on_nonfinite == "skip",
        )
        self.step, self.stopped, self.started = 0, False, False
        self.skipped_batches = 0  # by rollbacks
        self.recoveries: list[int] = []  # steps skipped in a row, or those of rollbacks to one checkpoint
        self.saved_at = time.monotonic()
        self.watched: list[Tensor] = []  # losses on the device
        self.watch_every = 1 if self.train_step.device.type == "cpu" else WATCH_EVERY
        self.throughput = Throughput(batches.batch_size)

    def restore(
        self, step: int, *, seconds: float, optimizer: dict[str, Tensor], skipped_batches: int = 0
    ) -> None:
        """Continue from a checkpoint at `step`, after `seconds` of training in which rollbacks left out
        `skipped_batches`; the task has its weights.
        """
        self.step, self.throughput.seconds, self.started = step, seconds, True
        self.skipped_batches = skipped_batches
        self.train_step.load(optimizer)

    def start(self) -> None:
        """Evaluate and save step 0, unless that or a checkpoint is where training starts already."""
        if not self.started:
            with self.throughput.exclude():
                self.maybe_evaluate()
                self._save()
        self.started = True

    def run(self) -> int:
        """Train to `config.steps`, or until asked to stop; save, and return the step reached.

        Raises NonFiniteError for a loss, a gradient, a weight or a moment that is not finite, unless
        `config.on_nonfinite` says otherwise; no checkpoint has it.
        """
        self.start()
        self.stopped = self.callbacks.should_stop()
        while self.step < self.config.steps and not self.stopped:
            self.advance()
        return self.step

    def advance(self) -> None:
        """Train for one step, then log, evaluate and save what is due."""
        config = self.config
        losses, learning_rate = self._train_step()
        self.watched.append(next(iter(losses.values())))
        self.throughput.count_step()
        self.stopped = self.callbacks.should_stop()
        last = self.stopped or self.step == config.steps
        logs = last or self.step % config.log_every == 0
        if (logs or self.train_step.device.type == "cpu") and self._recover():
            return
        if logs:
            values = {name: float(loss) for name, loss in losses.items()}
            if all(map(math.isfinite, values.values())):  # else it was skipped
                self.callbacks.log(self.throughput.record(self.step, values, learning_rate))
        with self.throughput.exclude():
            evaluates = self._is_due()
            saves = self.step % config.checkpoint_every == 0 or self._saving_is_late()
            saves = saves or (evaluates and config.on_nonfinite != "stop")  # the best weights are not lost
            if (evaluates or saves) and self._recover():
                return
            if self.maybe_evaluate():
                self.stopped = self.stopped or self.callbacks.should_stop()  # early stopping
            saves = saves or last or self.stopped
            if saves or self.step % self.watch_every == 0:
                self._report_losses()
            if saves and not self._recover(whole=True):
                self._save()

    def _train_step(self) -> tuple[Mapping[str, Scalar], float]:
        """Update the weights; return the losses before the update and the learning rate."""
        config, batches = self.config, self.batches
        images, labels = batches.batch(self.step + self.skipped_batches)
        batch = self.task.make_batch(images, labels, generator(config.seed, "problem", self.step))
        lr_factor = config.schedule.factor(self.step, steps=config.steps, epoch=batches.steps_per_epoch)
        self.step += 1
        with seeded(config.seed, "dropout", self.step, self.train_step.device):
            losses = self.train_step(batch, step=self.step, lr_factor=lr_factor)
        return losses, self.train_step.peak_lr * lr_factor

    def _save(self) -> None:
        self.callbacks.save(self.step, self.train_step.state())
        self.saved_at = time.monotonic()

    def _saving_is_late(self) -> bool:
        minutes = self.config.checkpoint_minutes
        return minutes is not None and time.monotonic() - self.saved_at >= 60 * minutes

    def _recover(self, *, whole: bool = False) -> bool:
        """Do what `config.on_nonfinite` says about steps that were not finite, and with `whole` about weights
        and moments; return whether training has returned to an earlier step. Raises NonFiniteError.
        """
        steps = self.train_step.nonfinite_steps()
        policy = self.config.on_nonfinite
        state = self.train_step.nonfinite_state() if whole or (steps and policy != "stop") else ""
        if not steps and not state:
            return False
        what, step = state or LOSS, steps[0] if steps else self.step
        if policy == "stop" or self.callbacks.roll_back is None:
            raise NonFiniteError(step, what)
        if policy == "rollback" or state:
            self._roll_back(step, what, self.callbacks.roll_back)
            return True
        for each in steps:
            self._log_skipped(each)
        return False

    def _log_skipped(self, step: int) -> None:
        in_a_row = bool(self.recoveries) and step == self.recoveries[-1] + 1
        self.recoveries = [*self.recoveries, step] if in_a_row else [step]
        if len(self.recoveries) > MAX_RECOVERIES:
            raise NonFiniteError(step, LOSS, f" and at the {MAX_RECOVERIES} steps before, which were skipped")
        text = f"{LOSS} is not finite at step {step}; its update was skipped"
        self.callbacks.log({"kind": "note", "step": step, "text": text})

    def _roll_back(self, bad_step: int, what: str, load: Callable[[], tuple[int, dict[str, Tensor]]]) -> None:
        step, optimizer = load()
        self.recoveries = [*(each for each in self.recoveries if each == step), step]
        if len(self.recoveries) > MAX_RECOVERIES:
            raise NonFiniteError(bad_step, what, f", after {MAX_RECOVERIES} rollbacks to step {step}")
        self.skipped_batches += bad_step - step
        self.step = step
        self.train_step.load(optimizer)
        self.watched.clear()
        text = (
            f"{what} is not finite at step {bad_step}; back to step {step}, without the {bad_step - step} "
            "batches since"
        )
        self.callbacks.log({"kind": "note", "step": step, "text": text})

    def _report_losses(self) -> None:
        """Call `watch` with the losses of the steps since the last call; waits for the device."""
        if self.watched:
            values: list[float] = torch.stack(self.watched).tolist()
            self.watched.clear()
            self.callbacks.watch(self.step, values)

    def _is_due(self) -> bool:
        """Return whether any evaluator runs at this step."""
        own = {spec.every for spec, _ in self.evaluators if spec.every is not None}
        intervals = (self.config.evaluate_every, *own)
        return self.step in (0, self.config.steps) or any(self.step % every == 0 for every in intervals)

    def maybe_evaluate(self) -> bool:
        """Run the evaluators that are due, all at the first and the last step; return whether any was.

        What an evaluator does wrong is a note in the log and not the end of training. Raises ValueError
        before the first step for two metrics of one name, and what an evaluator that may not fail raises.
        """
        if not self._is_due():
            return False
        step, at_end = self.step, self.step in (0, self.config.steps)
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
