"""Results: a training, a search for a learning rate, and a test loss."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from isopix.core.text import Table, format_duration, format_loss
from isopix.recipes.published import PublishedLoss
from isopix.storage.result import Result, Unsaved, unsaved

LR_SEARCH = "lr_search.json"
TrialStatus = Literal["completed", "failed", "diverged", "non-finite"]


class TrainingResult(Result):
    """A run folder, `path`, after training; `log` has its records, and `model` is its network."""

    recipe: str
    step: int
    weights_step: int
    """Step of the weights that are tested: the best on validation images, or the last."""
    finished: bool
    losses: Mapping[str, float]
    """Loss of these weights on each split, in nats per predicted code; per image if only classes are."""
    accuracies: Mapping[str, float]
    """Their classification accuracy on each split."""
    baselines: Mapping[str, Mapping[str, float]]
    """Losses of learning-free baselines by split and name."""
    uniform: float | None
    """Loss of a uniform prediction, in nats per predicted code."""
    resume: str
    """Command that resumes the run."""
    next: tuple[str, ...]
    """Commands that apply to the finished run."""
    run: Unsaved[Any] = unsaved()
    lr_search: Unsaved[Any] = unsaved()

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def log(self) -> Any:
        return self.run.log

    @property
    def model(self) -> Any:
        return self.run.model

    def tables(self) -> list[Table]:
        rows = [
            (split, _number(self.losses.get(split)), _percent(self.accuracies.get(split)))
            for split in dict.fromkeys([*self.losses, *self.accuracies])
        ]
        if tested := self.baselines.get("test"):
            best = min(tested, key=tested.__getitem__)
            rows.append((f"best learning-free baseline, test: {best}", _number(tested[best]), ""))
        if self.measurement:
            rows += [(name, "", _percent(each)) for name, each in self.measurement.baselines.items()]
        if self.uniform is not None and "test" in self.losses:
            rows.append(("uniform prediction", _number(self.uniform), ""))
        caption = f"{self.recipe}, weights of step {self.weights_step:,}"
        columns = ["images", "loss (nats)", "accuracy"]
        shown = 3 if any(row[2] for row in rows) else 2
        table = Table(caption, columns[:shown], [row[:shown] for row in rows])
        return [*(self.lr_search.tables() if self.lr_search else ()), table]

    def notes(self) -> list[str]:
        if not self.finished:
            return [f"stopped and saved at step {self.step}; resume with: {self.resume}"]
        notes = self.lr_search.notes() if self.lr_search else []
        return [*notes, f"finished: {self.path}", f"next: {' ; '.join(self.next)}"]


@dataclass(frozen=True)
class LRTrial:
    """A run at one learning rate: final validation loss or best `accuracy`, or where it diverged."""

    lr: float
    status: TrialStatus
    step: int
    loss: float | None
    seconds: float
    accuracy: float | None = None
    reason: str = ""

    @property
    def score(self) -> float | None:
        """What is compared, larger is better: the accuracy, or minus the loss; None without either."""
        if self.accuracy is not None:
            return self.accuracy
        return None if self.loss is None else -self.loss


def best_trial(trials: Sequence[LRTrial]) -> LRTrial | None:
    """Return the completed trial with the highest score, the largest learning rate of equals."""
    scores = {each: each.score for each in trials if each.status == "completed" and each.score is not None}
    return max(scores, key=scores.__getitem__, default=None)


def worsened(trials: Sequence[LRTrial]) -> bool:
    """Return whether a trial after a completed one is worse, or has failed; diverged ones do not count."""
    scored = [(each.score, each.status) for each in trials if each.score is not None]
    scores = [score if status == "completed" else -math.inf for score, status in scored]
    return any(later < earlier for earlier, later in pairwise(scores))


class LRSearchResult(Result):
    """A learning-rate search in the folder `path`, which has a run folder for each trial."""

    lrs: tuple[float, ...]
    """Learning rates to try, in decreasing order."""
    trials: tuple[LRTrial, ...]
    finished: bool
    best_lr: float | None

    @property
    def best(self) -> LRTrial | None:
        return best_trial(self.trials) if self.finished else None

    @property
    def remaining(self) -> tuple[float, ...]:
        return self.lrs[len(self.trials) :]

    @property
    def failure(self) -> str:
        if not self.finished or self.best:
            return ""
        first, last = self.trials[0].lr, self.trials[-1].lr
        return f"every trial from lr {first} to {last} diverged or failed to learn"

    def tables(self) -> list[Table]:
        rows = [_trial_row(trial, chosen=trial == self.best) for trial in self.trials]
        status = "not needed" if self.finished else "pending"
        rows += [(str(lr), status, "", "", "") for lr in self.remaining]
        result = "validation accuracy" if self._tuned else "validation loss (nats)"
        step = "step" if self._tuned else "steps"
        return [Table("Learning-rate search; * best", ["lr", "status", result, step, "time"], rows)]

    def notes(self) -> list[str]:
        notes = [f"lr {trial.lr} failed: {trial.reason}" for trial in self.trials if trial.reason]
        if not self.finished:
            return [*notes, f"stopped and saved in {self.path}; the same command resumes the search"]
        best = self.best
        if best is None:
            return notes
        if not worsened(self.trials):
            trend = "accuracy was still rising" if self._tuned else "loss was still falling"
            notes.append(f"note: the {trend} at the smallest learning rate; smaller ones may be better")
        if best == self.trials[0]:
            notes.append(
                "note: the best learning rate is the largest that was tried; larger ones may be better"
            )
        return [*notes, f"best learning rate: {best.lr}"]

    @property
    def _tuned(self) -> bool:
        return any(trial.accuracy is not None for trial in self.trials)


def _trial_row(trial: LRTrial, *, chosen: bool) -> tuple[str, ...]:
    ended = trial.status in ("completed", "failed")
    status = trial.status if ended else f"{trial.status} at step {trial.step:,}"
    result = _number(trial.loss) if trial.accuracy is None else _percent(trial.accuracy)
    steps = f"{trial.step:,}" if ended else ""
    return f"{trial.lr}{' *' * chosen}", status, result, steps, format_duration(trial.seconds)


def _number(value: float | None) -> str:
    return "" if value is None else format_loss(value)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


class LossResult(Result):
    """The test loss in nats per predicted code, next to the published and the uniform one."""

    recipe: str
    step: int
    imported: str | None
    checkpoint: str
    files: tuple[str, ...]
    palette: str
    palette_is_openai: bool
    data: str
    images: int
    precision: str
    loss_nats: float
    uniform_nats: float | None
    published: PublishedLoss | None

    def tables(self) -> list[Table]:
        assert self.measurement
        rows = [(f"this model, {self.measurement.line}", self.loss_nats)]
        if self.published:
            published = self.published
            rows.append((f"published ({published.source}): {published.protocol}", published.nats))
        if self.uniform_nats is not None:
            rows.append(("uniform prediction", self.uniform_nats))
        bits = [(name, f"{nats:.4f}", f"{nats / math.log(2):.4f}") for name, nats in rows]
        origin = f", imported from {self.imported}" if self.imported else ""
        caption = f"Loss per predicted code: {self.recipe}, step {self._step}{origin}"
        return [Table(caption, ["model", "nats", "bits"], bits)]

    def notes(self) -> list[str]:
        owner = "OpenAI's" if self.palette_is_openai else "custom"
        lines = [f"palette: {owner}, fingerprint {self.palette[:12]}"]
        if self.files:
            lines.append(f"{self.checkpoint}: all {len(self.files)} files match the hashes of the manifest")
        if self.published is None:
            lines.append("no published loss for this network and palette")
        else:
            if self.step != self.published.step:
                lines.append(f"published loss: step {self.published.step:,}; this model: step {self._step}")
            difference = self.loss_nats - self.published.nats
            away = f"difference from the published loss: {difference:+.4f} nats"
            lines.append(f"{away} (note the images of each)")
        return [*lines, *super().notes()]

    @property
    def _step(self) -> str:
        return "unknown" if self.imported and not self.step else f"{self.step:,}"
