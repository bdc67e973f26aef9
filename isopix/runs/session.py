"""Session: one process's work on a run folder: train, keep what must outlive it, and judge the end."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from isopix.core.config import to_dict
from isopix.core.device import environment
from isopix.data.batches import Batches, steps_per_epoch
from isopix.data.dataset import ImageSet
from isopix.finetune.classifier import Classifier
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel
from isopix.recipes.recipe import Recipe
from isopix.runs import along
from isopix.runs.load import WEIGHTS
from isopix.runs.online import Neighbours
from isopix.storage import checkpoint
from isopix.storage.checkpoint import Checkpoint, Groups
from isopix.storage.log import Log, Sink, TensorBoard
from isopix.storage.log import read as read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.early_stopping import Best, nothing_learnt
from isopix.train.evaluator import held_out
from isopix.train.signals import stop_requested
from isopix.train.tasks import Finetuning, Pretraining
from isopix.train.train_step import NonFiniteError, Stepper
from isopix.train.trainer import Every, Hooks, Record, train

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
    probeable: bool  # its images have two classes or more, and some to choose a layer by
    judgeable: bool  # it has learnt classes, and there are test images to judge it by


class Session:
    """One process's work on a run folder."""

    def __init__(
        self, run: RunFolder, recipe: Recipe, network: Network, data: ImageSet, device: torch.device
    ):
        self.run, self.recipe, self.data, self.device = run, recipe, data, device
        self.network = network.to(device)
        self.online = Neighbours(self.network, recipe, data)
        self.classifier: Classifier | None = None
        self.best: Best | None = None
        model = PretrainModel(self.network, recipe.objective)
        self.learner: Pretraining | Finetuning = Pretraining(model, recipe.data.patch_augment)
        if recipe.finetune is not None:
            self.classifier = Classifier(
                model, recipe.model.width, len(data.classes), recipe.finetune, seed=recipe.train.seed
            )
            self.learner = Finetuning(self.classifier, recipe.data.patch_augment)
            patience = recipe.finetune.patience if recipe.finetune.classifies else None
            self.best = None if patience is None else Best(patience)
        if recipe.train.compile:
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
            along.forget_after(self.run, step)
            self.log, self.sinks = log, [log]
            if watch.tensorboard:
                board = TensorBoard(self.run.path / "tensorboard", after=step)
                stack.callback(board.close)
                self.sinks.append(board)
            for skipped in self.data.skipped if found is None else ():
                self.record({"kind": "note", "step": 0, "text": f"skipped {skipped.path}: {skipped.reason}"})
            for note in notes:
                self.record({"kind": "note", "step": step, "text": note})
            if self.best:
                self.best.recall(read_log(self.run.log))
            reached = step if self._exhausted() else self._train(found, step)
            finished = reached == self.recipe.train.steps or self._exhausted()
            if finished:
                self._test(reached)
            return Outcome(self.run, reached, finished, self._probeable(), self._judgeable())

    @property
    def parameters(self) -> int:
        """How many are trained."""
        return sum(each.numel() for each in self.learner.module.parameters() if each.requires_grad)

    def _judgeable(self) -> bool:
        classifies = self.classifier is not None and self.classifier.settings.classifies
        return classifies and len(self.data.test) > 0

    def _probeable(self) -> bool:
        """A probe leaves validation images that were folded back out of train again."""
        return len(self.data.classes) > 1 and (len(self.data.validation) > 0 or self.recipe.data.fold_back)

    def _train(self, found: Checkpoint | None, step: int) -> int:
        recipe, train_images = self.recipe, self.data.train
        if found is not None and self.classifier:
            self.classifier.head.load_state_dict(found.tensors["classifier"])
        batches = Batches(
            train_images,
            size=recipe.train.batch_size,
            seed=recipe.train.seed,
            device=self.device,
            augment=recipe.data.augment,
        )
        try:
            return train(
                self.learner,
                recipe.train,
                batches=batches,
                validation=self.data.validation,
                hooks=Hooks(self.record, self.save, self.stop, self._probing(), self.online.measure),
                resume=None if found is None else self._memory(found, step),
            )
        except NonFiniteError as error:
            good = checkpoint.newest(self.run.checkpoints, WEIGHTS).checkpoint
            kept = f"the last good checkpoint is {good.path}" if good else "there is no checkpoint yet"
            advice = f"; {kept}; try a lower optimizer.learning_rate"
            raise NonFiniteError(error.step, advice) from None

    def _probing(self) -> Every | None:
        recipe = self.recipe

        def probe(step: int) -> None:
            self.record(
                along.probe(self.run, step, self.network, self.data, precision=recipe.train.precision)
            )

        return Every(recipe.train.probe_every, probe) if recipe.train.probe_every else None

    def _memory(self, found: Checkpoint, step: int) -> dict[str, Any]:
        seconds = [record["seconds"] for record in read_log(self.run.log) if record["kind"] == "train"]
        return {"step": step, "seconds": max(seconds, default=0.0), "optimizer": found.tensors["optimizer"]}

    def _test(self, step: int) -> None:
        """Grade the test images, unless an earlier process has done so."""
        test = self.data.test.first(self.recipe.train.num_test_images)
        if any(record.get("split") == "test" for record in read_log(self.run.log)) or len(test) == 0:
            return
        numbers: dict[str, Any] = {"images": len(test)}
        if self.classifier:
            numbers |= self._take_best(self.classifier)
        numbers |= held_out(
            self.learner, test, seed=self.recipe.train.seed, precision=self.recipe.train.precision
        )
        self.record({"kind": "evaluation", "step": step, "split": "test", **numbers})

    def _take_best(self, classifier: Classifier) -> dict[str, Any]:
        """The weights with the best validation accuracy, and at which step that was."""
        if not (self.run.best / checkpoint.MANIFEST).is_file():
            return {}  # nothing was chosen
        found = checkpoint.load(self.run.best, (*WEIGHTS, "classifier"))
        self.network.load({name: tensor.to(self.device) for name, tensor in found.tensors["model"].items()})
        classifier.head.load_state_dict(found.tensors["classifier"])
        return {"best_step": found.records["state"]["step"]}

    def _exhausted(self) -> bool:
        return self.best is not None and self.best.exhausted

    def stop(self) -> bool:
        """Whether a signal, whoever watches, or the end of patience asks the run to stop after this step."""
        return self.request.signal is not None or self.watch.stop() or self._exhausted()

    def record(self, record: Record) -> None:
        for sink in self.sinks:
            sink.write(record)
        self.watch.record(record)
        if self.best and self.best.see(record):
            self._write(self.run.best, record["step"], {})
        if self.classifier and self.classifier.settings.classifies and self._is_due(record):
            self._complain(record)

    def _is_due(self, record: Record) -> bool:
        """Whether this is the first validation after an epoch, or the last of a run that ends before."""
        if record["kind"] != "evaluation" or record["split"] != "validation":
            return False
        recipe, step = self.recipe, record["step"]
        epoch = min(recipe.train.steps, steps_per_epoch(len(self.data.train), recipe.train.batch_size))
        before = (
            (step - 1) // recipe.train.evaluate_every * recipe.train.evaluate_every
        )  # the validation before this one
        return bool(self._exhausted() or before < epoch <= step)

    def _complain(self, record: Record) -> None:
        labels = self.data.validation.first(record["images"]).labels
        assert labels is not None, "require_labels has seen to it"
        text = nothing_learnt(record["accuracy"], labels)
        if text:
            self.record({"kind": "note", "step": record["step"], "text": text})

    def save(self, step: int, stepper: Stepper) -> None:
        self.log.sync()
        folder = checkpoint.step_folder(self.run.checkpoints, step)
        self._write(folder, step, {"optimizer": stepper.state()})
        checkpoint.prune(self.run.checkpoints, KEPT)

    def _write(self, folder: Path, step: int, more: Groups) -> None:
        state = {"step": step, "codec": self.network.codec.fingerprint(), "data": self.data.fingerprint}
        records: dict[str, dict[str, Any]] = {
            "recipe": to_dict(self.recipe),
            "state": state,
            "environment": environment(self.device),
        }
        groups: dict[str, Mapping[str, Tensor]] = {"model": self.network.tensors(), **more}
        if self.classifier:
            groups["classifier"] = {
                name: each.detach() for name, each in self.classifier.head.state_dict().items()
            }
            state["classes"] = list(self.data.classes)
        checkpoint.save(folder, groups, records)
