"""Search: a descent of learning rates in a folder; each rung is a run folder of its own."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.core.config import from_dict, to_dict
from isopix.data.dataset import load_dataset
from isopix.recipes.recipe import Recipe
from isopix.runs.load import find
from isopix.runs.pretrain import (
    Outcome,
    Watch,
    anchored,
    refuse_other_settings,
    require_validation,
    resume,
    start,
)
from isopix.storage.atomic import read_json, write_json
from isopix.storage.lock import LOCK_FILE, exclusive_lock
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.divergence import Spike
from isopix.train.lr_search import Descent, Fate, Rung, descend
from isopix.train.train_step import NonFiniteError
from isopix.train.trainer import Record

FILE = "descent.json"

Watching = Callable[[float], AbstractContextManager[Watch]]


class Training(NamedTuple):
    """How a rung is trained in its folder at a rate, how an interrupted one goes on, and what all rungs
    share: their settings, and the steps that they take.
    """

    begin: Callable[[float, Path, Watch], Outcome]
    go_on: Callable[[Path, Watch], Outcome]
    settings: dict[str, Any]
    steps: int


def pretraining(recipe: Recipe, device: torch.device) -> Training:
    """Rungs that pre-train this recipe; the test images are not graded, for a choice must not know them.

    Raises ValueError if there are no validation images to choose by.
    """
    require_validation(recipe, load_dataset(recipe.data, seed=recipe.train.seed), "a rate")
    recipe = recipe.updated(
        num_test_images=0,
    )
    settings = to_dict(anchored(recipe))
    del settings["train"]["optimizer"]["lr"]

    def begin(rate: float, folder: Path, watch: Watch) -> Outcome:
        at_rate = recipe.updated(
            optimizer=replace(recipe.train.optimizer, lr=rate),
        )
        return start(at_rate, folder, device=device, watch=watch)

    def go_on(folder: Path, watch: Watch) -> Outcome:
        return resume(folder, device=device, watch=watch)

    return Training(begin, go_on, settings, recipe.train.steps)


def search(out: Path, rates: tuple[float, ...], *, training: Training, watching: Watching) -> Descent:
    """Descend in `out`, or go on with the descent that is there; not finished if it was asked to stop.

    After a kill at any moment the same call goes on. A descent that reached its smallest rate goes on if
    `rates` has smaller ones. `watching` gives who looks on at a rate. Raises ValueError for a folder of
    something else, of a descent with other settings, or in use, and what `training` raises.
    """
    _claim(out)
    with exclusive_lock(out, "folder"):
        descent = Descent(rates, _tried(out, training.settings, rates))
        _keep(out, descent, training.settings)

        def run(rate: float) -> Rung | None:
            with watching(rate) as watch:
                return climb(rate, rung_folder(out, rate), training=training, watch=watch)

        try:
            for each in descend(descent, run):
                descent = each
                _keep(out, descent, training.settings)
        except ValueError:
            if not any(out.glob("lr-*")):  # so that the command works once its mistake is mended
                (out / FILE).unlink()
            raise
        return descent


def climb(rate: float, folder: Path, *, training: Training, watch: Watch) -> Rung | None:
    """Train one rung from its start or its last checkpoint until it ends or dies; None if asked to stop."""
    run, vigil = RunFolder(folder), _Vigil(watch, training.steps)
    saved = run.has_checkpoints
    if saved:
        vigil.recall(run)
    else:
        run.clear_unless_saved()
    if vigil.rose is not None:
        return _rung(run, rate, "spiked", vigil.rose)
    watched = watch._replace(record=vigil.record, stop=vigil.stop)
    try:
        outcome = training.go_on(folder, watched) if saved else training.begin(rate, folder, watched)
    except NonFiniteError as error:
        return _rung(run, rate, "non-finite", error.step)
    if outcome.finished:
        return _rung(run, rate, "final", outcome.step)
    return None if vigil.rose is None else _rung(run, rate, "spiked", vigil.rose)


def rung_folder(out: Path, rate: float) -> Path:
    """Where the run of a rate lies."""
    return out / f"lr-{rate}"


class _Vigil:
    """Looks for a spike in the records of a rung, and hands everything on to the other watcher."""

    def __init__(self, watch: Watch, steps: int):
        self.watch, self.steps = watch, steps
        self.spike: Spike | None = None

    @property
    def rose(self) -> int | None:
        """The step from which on a dead loss was high; None for a living one."""
        return self.spike.since if self.spike is not None and self.spike.dead else None

    def recall(self, run: RunFolder) -> None:
        """See what the run has logged up to the checkpoint from which it goes on."""
        reached = find(run.path, ())[0].records["state"]["step"]
        for record in read_log(run.log):
            if record["step"] <= reached:
                self._see(record)

    def record(self, record: Record) -> None:
        self._see(record)
        self.watch.record(record)

    def stop(self) -> bool:
        return self.rose is not None or self.watch.stop()

    def _see(self, record: Record) -> None:
        if record["kind"] == "evaluation" and record["step"] == 0:
            self.spike = Spike(self.steps, before=record["loss_nats"])
        elif record["kind"] == "train" and self.spike is not None:
            self.spike.see(record["step"], record["loss_nats"])


def _rung(run: RunFolder, rate: float, fate: Fate, step: int) -> Rung:
    """What the log of a rung tells of its end."""
    records = read_log(run.log)
    losses = {
        record["step"]: record["loss_nats"]
        for record in records
        if record["kind"] == "evaluation" and record["split"] == "validation"
    }
    seconds = max((record["seconds"] for record in records if record["kind"] == "train"), default=0.0)
    return Rung(rate, fate, step, losses[step] if fate == "final" else None, seconds)


def _claim(out: Path) -> None:
    """Make the folder. Raises ValueError if something else than a descent is there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (NotADirectoryError, FileExistsError):
        raise ValueError(f"folder {out} cannot be made: part of its path is a file") from None
    ours = (out / FILE).is_file() or all(
        path.name == LOCK_FILE or path.name[0] == "." for path in out.iterdir()
    )
    if not ours:
        raise ValueError(f"folder {out} is not empty, and holds no descent; choose another --out")


def _tried(out: Path, settings: Mapping[str, Any], rates: tuple[float, ...]) -> tuple[Rung, ...]:
    """The rungs of the descent in the folder, if there is one. Raises ValueError if it is another."""
    if not (out / FILE).is_file():
        return ()
    kept = read_json(out / FILE)
    refuse_other_settings(f"the descent in {out}", kept.pop("settings"), settings)
    rungs = from_dict(Descent, {name: kept[name] for name in ("rates", "rungs")}).rungs
    tried = tuple(rung.rate for rung in rungs)
    if tried != rates[: len(tried)]:
        raise ValueError(f"the descent in {out} has tried {_listed(tried)}, not {_listed(rates)}")
    return rungs


def _listed(rates: tuple[float, ...]) -> str:
    return ", ".join(map(str, rates))


def _keep(out: Path, descent: Descent, settings: Mapping[str, Any]) -> None:
    chosen = None if descent.chosen is None else descent.chosen.rate
    state = {"chosen": chosen, "finished": descent.finished}
    write_json(out / FILE, {"kind": "descent", **state, **to_dict(descent), "settings": settings})
