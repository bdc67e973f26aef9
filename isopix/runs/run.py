"""Runs: a recipe and its images become a run folder, and an interrupted run goes on."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.core.device import environment
from isopix.data.batches import Batches
from isopix.data.images import ImageSet
from isopix.data.images import load as load_images
from isopix.objectives.network import Network
from isopix.recipes.recipe import Recipe
from isopix.runs.load import WEIGHTS, find, recipe_of, revive
from isopix.runs.surroundings import surroundings
from isopix.train import checkpoint
from isopix.train.checkpoint import Checkpoint
from isopix.train.disk import write_json
from isopix.train.evaluate import held_out_loss
from isopix.train.learners import Pretraining
from isopix.train.log import Log, Sink, TensorBoard
from isopix.train.log import read as read_log
from isopix.train.loop import Hooks, Record, train
from isopix.train.run_folder import RunFolder
from isopix.train.signals import stop_requested
from isopix.train.stepper import NonFiniteError, Stepper, require_compiler

KEPT = 2  # checkpoints; the older one serves when the newer is damaged


class Watch(NamedTuple):
    """Who looks on: `record` sees every record of the log; `stop` is asked after every step, as signals are.

    With `tensorboard` the numbers also go to TensorBoard files in the run folder.
    """

    record: Callable[[Record], None] = lambda record: None
    stop: Callable[[], bool] = lambda: False
    tensorboard: bool = False


class Outcome(NamedTuple):
    """Where a run stands."""

    run: RunFolder
    step: int
    finished: bool
    labelled: bool  # its images have two classes or more, so that it can be probed


def start(recipe: Recipe, out: Path, *, device: torch.device, watch: Watch) -> Outcome:
    """Train a recipe from its first step in the new run folder `out`.

    Raises ValueError for settings, data or folders that cannot be, before anything is trained; RuntimeError
    if the disk is full or the loss stops being a number.
    """
    if recipe.compile:
        require_compiler()
    run = RunFolder.create(out)
    try:
        data = load_images(recipe.data, seed=recipe.seed)
        if recipe.codec.task:
            text = f"{recipe.codec.task} to {len(data.train):,} training images"
            watch.record({"kind": "note", "step": 0, "text": text})
        network = recipe.build(recipe.codec.fit(data.train.images, recipe.grid, recipe.seed))
        with run.lock():
            write_json(run.recipe, to_dict(anchored(recipe)))
            write_json(run.environment, {**surroundings(device), **_facts(data), **recipe.codec.origin()})
            if data.report:
                shutil.copy(data.report, run.path / "bad-files.csv")
            return _Session(run, anchored(recipe), network, data, device).go(watch, None)
    except BaseException:
        run.clear_unless_saved()
        raise


def resume(out: Path, *, device: torch.device, watch: Watch) -> Outcome:
    """Go on from the newest intact checkpoint; on a CPU with the same threads and versions, bit for bit.

    Raises ValueError if there is nothing to go on with or the data has changed, and what `start` raises.
    """
    run = RunFolder.open(out)
    with run.lock():
        found, passed_over = find(out)
        recipe = recipe_of(found)
        if recipe.compile:
            require_compiler()
        if "optimiser" not in found.tensors:
            raise ValueError(
                f"{out} holds a model without the state of its optimiser, as an imported one has none; "
                "it can be probed, sampled and reported, but its training cannot go on"
            )
        data = load_images(recipe.data, seed=recipe.seed)
        if data.fingerprint != found.records["state"]["data"]:
            raise ValueError(
                f"the images of '{recipe.data.source}' are not those that run {out} started with"
            )
        session = _Session(run, recipe, revive(found), data, device)
        notes = [f"passed over: {reason}" for reason in passed_over]
        if found.records["state"]["step"] < recipe.steps:
            notes += _differences(found, device)
        return session.go(watch, found, notes)


def anchored(recipe: Recipe) -> Recipe:
    """The recipe with the paths of its files made absolute, so that it means the same from every folder."""
    data = Path(recipe.data.source)
    if data.exists():
        recipe = replace(recipe, data=replace(recipe.data, source=str(data.resolve())))
    return replace(recipe, codec=recipe.codec.anchored())


class _Session:
    """One process's work on a run folder."""

    def __init__(
        self, run: RunFolder, recipe: Recipe, network: Network, data: ImageSet, device: torch.device
    ):
        self.run, self.recipe, self.data, self.device = run, recipe, data, device
        self.network = network.to(device)
        self.learner = Pretraining(self.network)
        if recipe.compile:
            network.codec.prepare()
        self.sinks: list[Sink] = []

    def go(self, watch: Watch, found: Checkpoint | None, notes: Sequence[str] = ()) -> Outcome:
        """Train to the end, or to a stop, and grade the test images once the end is reached."""
        self.watch = watch
        step = 0 if found is None else found.records["state"]["step"]
        with ExitStack() as stack:
            self.request = stack.enter_context(stop_requested())
            log = Log(self.run.log)
            stack.callback(log.close)
            log.truncate_after(step)
            self.log, self.sinks = log, [log]
            if watch.tensorboard:
                board = TensorBoard(self.run.path / "tensorboard", after=step)
                stack.callback(board.close)
                self.sinks.append(board)
            for skipped in self.data.skipped if found is None else ():
                self.record({"kind": "note", "step": 0, "text": f"skipped {skipped.path}: {skipped.reason}"})
            for note in notes:
                self.record({"kind": "note", "step": step, "text": note})
            reached = self._train(found, step)
            finished = reached == self.recipe.steps
            if finished:
                self._test(reached)
            return Outcome(self.run, reached, finished, len(self.data.classes) > 1)

    def _train(self, found: Checkpoint | None, step: int) -> int:
        recipe, train_images = self.recipe, self.data.train
        batches = Batches(
            train_images, size=recipe.batch, seed=recipe.seed, device=self.device, augment=recipe.data.augment
        )
        try:
            return train(
                self.learner,
                recipe,
                batches=batches,
                validation=self.data.validation,
                hooks=Hooks(self.record, self.save, self.stop),
                resume=None if found is None else self._memory(found, step),
            )
        except NonFiniteError as error:
            good = checkpoint.newest(self.run.checkpoints, WEIGHTS).checkpoint
            kept = f"the last good checkpoint is {good.path}" if good else "there is no checkpoint yet"
            raise RuntimeError(f"{error}; {kept}; try a lower optimiser.learning_rate") from None

    def _memory(self, found: Checkpoint, step: int) -> dict[str, Any]:
        seconds = [record["seconds"] for record in read_log(self.run.log) if record["kind"] == "train"]
        return {"step": step, "seconds": max(seconds, default=0.0), "optimiser": found.tensors["optimiser"]}

    def _test(self, step: int) -> None:
        """Grade the test images, unless an earlier process has done so."""
        images = self.data.test.images[: self.recipe.test_images]
        if any(record.get("split") == "test" for record in read_log(self.run.log)) or len(images) == 0:
            return
        recipe = self.recipe
        loss = held_out_loss(self.learner, images, seed=recipe.seed, precision=recipe.precision)
        numbers = {"images": len(images), "loss_nats": loss}
        self.record({"kind": "evaluation", "step": step, "split": "test", **numbers})

    def stop(self) -> bool:
        """Whether a signal or whoever watches asks the run to stop after this step."""
        return self.request.signal is not None or self.watch.stop()

    def record(self, record: Record) -> None:
        for sink in self.sinks:
            sink.write(record)
        self.watch.record(record)

    def save(self, step: int, stepper: Stepper) -> None:
        self.log.sync()
        state = {"step": step, "codec": self.network.codec.fingerprint(), "data": self.data.fingerprint}
        records: dict[str, dict[str, Any]] = {
            "recipe": to_dict(self.recipe),
            "state": state,
            "environment": environment(self.device),
        }
        folder = checkpoint.step_folder(self.run.checkpoints, step)
        checkpoint.save(folder, {"model": self.network.tensors(), "optimiser": stepper.state()}, records)
        checkpoint.prune(self.run.checkpoints, KEPT)


def _facts(data: ImageSet) -> dict[str, Any]:
    """Which images, and how many in each split."""
    counts = {"train": len(data.train), "validation": len(data.validation), "test": len(data.test)}
    return {"data": data.fingerprint, "images": counts}


def _differences(found: Checkpoint, device: torch.device) -> list[str]:
    """A line for each thing that keeps a resume from being bit for bit."""
    then, now = found.records["environment"], environment(device)
    return [
        f"resumed with {name} {now[name]}, the run had {then.get(name)}: weights may differ in the last bits"
        for name in ("device", "threads", "torch", "pillow")
        if then.get(name) != now[name]
    ]
