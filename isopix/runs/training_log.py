"""The log of a run in training: appended, rewound to a checkpoint, and copied to loggers on request."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from isopix.recipes.recipe import Recipe
from isopix.runs.metric_loggers import RunLoggers
from isopix.storage.log import RunLog, read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.stopping import DivergedError, DivergenceDetector
from isopix.train.trainer import Record


class TrainingLog:
    """The open log of a run of `steps` steps, after the lines of `step`; an earlier process may have written
    later ones, which are deleted. `record` is called with a note for each of the `loggers` that fails.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        step: int,
        steps: int,
        loggers: Sequence[str],
        record: Callable[[Record], None],
    ):
        self.folder, self.steps = folder, steps
        self._log = RunLog(folder.log)
        self._loggers = RunLoggers(loggers, folder, record=record)
        self.rewind(step)

    def write(self, record: Record) -> None:
        """Write a record. Raises DivergedError if the training loss has risen and does not recover."""
        self._log.write(record)
        self._loggers.write(record, self.read)
        self._watch(record)

    def read(self) -> list[Record]:
        """Return all records."""
        return read_log(self.folder.log)

    def has(self, kind: str, split: str | None = None) -> bool:
        """Whether the log has a record of this kind, and of this split if one is given."""
        return any(each["kind"] == kind and split in (None, each.get("split")) for each in self.read())

    def risen_loss_note(self, record: Record) -> str:
        """Return a warning for the last validation loss if it is above that of the initial weights; empty for
        other records.
        """
        if record.get("split") != "validation" or record["step"] != self.steps or "loss_nats" not in record:
            return ""
        before = [each for each in self.read() if each.get("split") == "validation" and each["step"] == 0]
        losses = [each["loss_nats"] for each in before if "loss_nats" in each]
        if not losses or record["loss_nats"] <= losses[0]:
            return ""
        return (
            f"the validation loss of {record['loss_nats']:.4f} nats is above that of the initial weights, "
            f"{losses[0]:.4f} nats; try a lower optimizer.lr"
        )

    def total(self, name: str) -> float:
        """Return the `seconds` or `energy_joules` of training so far."""
        return max((each.get(name, 0.0) for each in self.read()), default=0.0)

    def rewind(self, step: int) -> None:
        """Delete what was written of later steps, here and in the history of probes."""
        self._log.path = self.folder.log  # a run gets its name when step 0 has been saved
        self._log.truncate_after(step)
        self._loggers.rewind(step)
        for path in self.folder.history.glob("step-*.json"):
            if _step_of(path) > step:
                path.unlink()
        self._detector: DivergenceDetector | None = None
        self._last: tuple[int, float] | None = None
        for record in self.read():
            self._watch(record)

    def check_end(self) -> None:
        """Raise DivergedError if training has ended with a loss more than twice as high as at its start; a
        short one may do so before a rise is found.
        """
        if self._detector is not None and self._last is not None:
            step, loss = self._last
            if loss > 2 * abs(self._detector.initial_loss):
                raise DivergedError(step, loss, self._detector.lowest)

    def sync(self) -> None:
        """Flush all lines to the disk."""
        self._log.sync()

    def close(self) -> None:
        self._loggers.close()
        self._log.close()

    def _watch(self, record: Record) -> None:
        """Follow the training loss from the first one that is known."""
        name = "total_nats" if "total_nats" in record else "loss_nats"
        if record["kind"] not in ("evaluation", "train") or name not in record:
            return
        if self._detector is None:
            self._detector = DivergenceDetector(self.steps, initial_loss=record[name])
        if record["kind"] == "train":
            self._last = record["step"], record[name]
            self._detector.update(record["step"], record[name])
            if self._detector.diverged:
                since = self._detector.high_since or record["step"]
                raise DivergedError(since, record[name], self._detector.lowest)


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def decoder_fits(recipe: Recipe, step: int, run: RunFolder, *, initially: bool) -> bool:
    """Return whether the decoder fits the backbone after `step`; `initially` is whether it did at step 0.

    One that did not, because fine-tuning on classes alone had changed the backbone, does so again when the
    last validation loss of the codes is below their unigram baseline.
    """
    if step == 0:
        return initially
    return recipe.predicts_codes and (initially or _is_below_unigram(read_log(run.log)))


def unigram_nats(records: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the unigram baseline of the validation images, in nats per predicted code, if a log has it."""
    found = (
        each["nats"].get("unigram")
        for each in records
        if each["kind"] == "baselines" and each["held_out"] == "validation"
    )
    return next(found, None)


def _is_below_unigram(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last validation loss of the codes is below the unigram baseline; False if unknown."""
    losses = [
        each["loss_nats"] for each in records if each.get("split") == "validation" and "loss_nats" in each
    ]
    baseline = unigram_nats(records)
    return bool(losses) and baseline is not None and losses[-1] < baseline
