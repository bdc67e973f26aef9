"""Cell: one network of a study, trained, probed and measured, and one file that tells its outcome."""

import multiprocessing
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from isopix.core.config import from_dict
from isopix.core.device import pick
from isopix.data.dataset import ImageSet, digest
from isopix.data.dataset import load as load_images
from isopix.probe.results import Evidence, Protocol
from isopix.recipes.recipe import Recipe
from isopix.runs.load import Loaded, load_run
from isopix.runs.lr_search import pretrain_runner, train_at_lr
from isopix.runs.probe import evidence, keep
from isopix.runs.training import RunObserver
from isopix.storage.atomic import read_json, write_json
from isopix.storage.lock import sole_writer
from isopix.storage.run_folder import RunFolder
from isopix.studies.inductive_bias.metrics import measured
from isopix.studies.inductive_bias.trials import Cell
from isopix.train.lr_search import LRTrial

State = Literal["not yet", "done", "failed"]


@dataclass(frozen=True)
class Outcome:
    """What became of a cell, so far: its run folder, the rates that were tried, the last of which survived if
    it is done, and what was found. Seconds are of the clock.
    """

    state: State = "not yet"
    reason: str = ""  # of a failure
    trace: str = ""
    run: str = ""
    rungs: tuple[LRTrial, ...] = ()
    training_seconds: float = 0.0
    probing_seconds: float = 0.0
    found: dict[str, Any] = field(default_factory=dict)  # what `_findings` returns

    @property
    def cell(self) -> Cell | None:
        """The numbers of a cell that is done."""
        if not self.found:
            return None
        told = self.found["cell"]
        layers = {name: tuple(told[name]) for name in ("accuracies", "validations")}
        return Cell(**{**told, **layers})


class Task(NamedTuple):
    """All that a process must know to make a cell; what can be sent to it.

    A run's folder is `folder`; of a second rate, -lr-RATE is appended. `probed` is how many images of each
    split a probe reads at most.
    """

    name: str
    kind: tuple[str, str, int]
    recipe: Recipe
    rates: tuple[float, ...]
    protocol: Protocol
    probed: Mapping[str, int]
    folder: Path
    outcome: Path

    def read(self) -> Outcome:
        """What is known of it. Raises ValueError for a file that is damaged, or of another version."""
        if not self.outcome.is_file():
            return Outcome()
        try:
            values = read_json(self.outcome)
            read = from_dict(Outcome, {name: each for name, each in values.items() if name != "kind"})
            absent = [name for name in Cell._fields if read.found and name not in read.found["cell"]]
            if absent:
                raise ValueError(f"it has no {absent[0]}")
        except ValueError as error:
            told = f"{self.outcome} cannot be read: {error}"
            raise ValueError(f"{told}; without it, its cell is probed again from its run") from None
        return read

    def write(self, outcome: Outcome) -> None:
        """Replace what is known of it."""
        write_json(self.outcome, {"kind": "outcome", **asdict(outcome)})

    def run(self, rate: float) -> Path:
        """The run folder of a rate."""
        first = rate == self.rates[0]
        return self.folder if first else self.folder.with_name(f"{self.folder.name}-lr-{rate}")


def work(task: Task, device: str, threads: int | None) -> None:
    """Make a cell from where it is, and write down its outcome; what fails is such an outcome.

    A cell that is asked to stop, or whose study has ended, saves and has no outcome yet. One that a process
    of a study that was killed is still saving fails. On a CPU with as many threads the numbers are the same
    however often it was stopped.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with sole_writer(task.outcome.parent, f"cell {task.name} in", name=f"{task.name}.lock"):
            outcome = _made(task, pick(device))
    except KeyboardInterrupt:
        return
    except Exception as error:
        fail(task, _first_line(error), trace=traceback.format_exc())
        return
    if outcome is not None:
        task.write(outcome)


def fail(task: Task, reason: str, *, trace: str = "") -> None:
    """Write down that a cell failed; the rates that died stay known."""
    task.write(replace(task.read(), state="failed", reason=reason, trace=trace))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _made(task: Task, device: torch.device) -> Outcome | None:
    """The outcome; None if asked to stop."""
    rung = _trained(task, device)
    if rung is None:
        return None
    began = time.monotonic()
    folder = task.run(rung.lr)
    loaded = load_run(folder, device=device)
    loaded.network.eval()
    data = _fewer(load_images(loaded.recipe.data, seed=loaded.recipe.train.seed), task.probed)
    found = evidence(loaded, data, precision=loaded.recipe.train.precision, protocol=task.protocol)
    facts: dict[str, object] = {"data": data.name, "limit": None, "images_digest": digest(data)}
    keep(RunFolder(folder), loaded.step, found, facts)
    return replace(
        task.read(),
        state="done",
        reason="",
        trace="",
        run=folder.name,
        training_seconds=rung.seconds,
        probing_seconds=time.monotonic() - began,
        found=_findings(task, rung, found, loaded, data),
    )


def _trained(task: Task, device: torch.device) -> LRTrial | None:
    """The first rate from the largest on that the training survives; those that died are remembered.

    None if asked to stop; raises RuntimeError if every rate dies, and what `start` raises.
    """
    training, watch = pretrain_runner(task.recipe, device), RunObserver(stop=_abandoned)
    for rate in task.rates:
        kept = task.read()
        if rate in [rung.lr for rung in kept.rungs if rung.status != "completed"]:
            continue
        rung = train_at_lr(rate, task.run(rate), runner=training, observer=watch)
        if rung is None:
            return None
        others = tuple(each for each in kept.rungs if each.lr != rate)
        task.write(replace(kept, state="not yet", reason="", trace="", rungs=(*others, rung)))
        if rung.loss is not None:
            return rung
    raise RuntimeError(f"the loss diverged at every rate from {task.rates[0]:g} down to {task.rates[-1]:g}")


def _findings(task: Task, rung: LRTrial, found: Evidence, loaded: Loaded, data: ImageSet) -> dict[str, Any]:
    """All numbers of a cell: those of `Cell`, those of the untrained network, and what was measured."""
    network, untrained = found.network, found.controls["untrained"]
    block, encoding, depth = task.kind
    cell = Cell(
        block=block,
        encoding=encoding,
        depth=depth,
        seed=loaded.recipe.train.seed,
        loss=float(rung.loss or 0.0),
        accuracies=tuple(score.test for score in network.layers),
        validations=tuple(score.validation for score in network.layers),
        best=network.best,
    )
    return {
        "cell": cell._asdict(),
        "interval": [network.score.low, network.score.high],
        "untrained": [score.test for score in untrained.layers],
        "untrained_best": untrained.best,
        "raw_pixels": found.controls["raw pixels"].score.test,
        "majority": network.majority,
        "images": network.images,
        "measured": measured(loaded, data.test.images),
    }


def _fewer(data: ImageSet, probed: Mapping[str, int]) -> ImageSet:
    return replace(
        data,
        train=data.train.first(probed["train"]),
        validation=data.validation.first(probed["validation"]),
        test=data.test.first(probed["test"]),
    )


def _abandoned() -> bool:
    """Whether the process that started this one is gone."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()
