"""Training in a run folder: the log, the checkpoints and the test at the end, around the trainer."""

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isopix.core.config import to_dict
from isopix.core.signals import stop_requested
from isopix.data.batches import Batches
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import majority_baseline, measurement_of, training_classes
from isopix.finetuning.classifier import FineTuneModel, FineTuneTask
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel
from isopix.recipes.recipe import Recipe
from isopix.runs.image_lists import list_hashes, save_test_images
from isopix.runs.load import find_checkpoint, find_weights
from isopix.runs.state import (
    CLASSIFIER,
    MODEL,
    OPTIMIZER,
    CheckpointWriter,
    Origin,
    RunStatus,
    SavedRun,
    State,
    read_environment,
    records_of,
    selection_text,
)
from isopix.runs.training_log import RunObserver, TrainingLog, decoder_fits, evaluator_specs
from isopix.runs.visibility import check_visibility
from isopix.storage import checkpoint
from isopix.storage.plugins import remember_plugins
from isopix.storage.provenance import plugin_records
from isopix.storage.result import Measurement
from isopix.storage.run_folder import RunFolder
from isopix.train.evaluator import EvaluationContext, evaluate_split, measure_baselines
from isopix.train.parallel import barrier, own_images, shard_like, whole_weights
from isopix.train.stopping import CAUSES, EarlyStopping, chance_level_note
from isopix.train.tasks import Metric, PretrainTask, TrainingTask
from isopix.train.train_step import NonFiniteError
from isopix.train.trainer import Callbacks, Record, Trainer


class TrainingRun:
    def __init__(
        self,
        folder: RunFolder,
        recipe: Recipe,
        network: Network,
        data: ImageDataset,
        device: torch.device,
        origin: Origin,
    ):
        self.folder, self.recipe, self.data, self.origin, self.device = folder, recipe, data, origin, device
        self.network = network.to(device)
        check_visibility(recipe, network.codec, device)
        self.network.backbone.recompute = recipe.train.recompute
        self.pretrain_model = PretrainModel(self.network, recipe.objective)
        self.model: FineTuneModel | None = None
        self.task: TrainingTask = PretrainTask(self.pretrain_model, recipe.data.patch_augment)
        finetune = recipe.finetune
        self.classifies = finetune is not None and finetune.has_class_loss
        if finetune is not None:
            width, seed = recipe.model.width, recipe.train.seed
            self.model = FineTuneModel(self.pretrain_model, width, len(data.classes), finetune, seed=seed)
            self.model.freeze_unused()
            self.task = FineTuneTask(self.model, recipe.data.patch_augment, data.train.labels)
        patience = recipe.patience
        self.early_stopping = EarlyStopping(patience, by_accuracy=self.classifies) if patience else None
        self.precision = recipe.train.precision_on(device)
        if recipe.train.compiles_on(device):
            network.codec.build_table()

    def run(
        self, observer: RunObserver, saved: SavedRun | None = None, notes: Sequence[str] = ()
    ) -> RunStatus:
        """Train from the checkpoint `saved` or from step 0, to the end or a stop; test at the end."""
        state, config = saved and saved.state, self.recipe.train
        step = state.step if state else 0
        self.observer = observer
        remember_plugins()
        self.run_id = state.run_id if state else read_environment(self.folder).run_id
        self.files = state.files if state else list_hashes(self.folder)
        self.log = TrainingLog(self.folder, self.recipe, self.device, observer, step=step, record=self.record)
        background = self.device.type == "cuda" if config.async_save is None else config.async_save
        self.writer = CheckpointWriter(self.folder, in_background=background)
        with closing(self.log), closing(self.writer):
            if state is None:
                self._record_measurements()
            self._note(step, *(self.data.notes if state is None else ()), *notes)
            if self.early_stopping:
                self.early_stopping.replay(self.log.read())
            if not self._patience_exhausted():
                step = self._train(saved)
            finished = step == config.steps or self._patience_exhausted()
            if finished:
                self.log.divergence.check_end()
                self._test(step)
        to_probe = len(self.data.validation) > 0 or self.recipe.data.train_on_validation
        can_probe = len(self.data.classes) > 1 and to_probe
        can_evaluate = self.classifies and len(self.data.test) > 0
        return RunStatus(self.folder.saved, step, finished, can_probe, can_evaluate)

    def _record_measurements(self) -> None:
        for spec in evaluator_specs(self.recipe.train):
            measurement = spec.measurement(self.data)
            if measurement.images:
                text = f"{spec.label()}: {measurement.line}"
                record = {"kind": "measurement", "step": 0, "evaluator": spec.kind, "text": text}
                self.record({**record, "measurement": self._measured(measurement)})

    def _train(self, saved: SavedRun | None) -> int:
        config, data = self.recipe.train, self.data
        with closing(self._batches()) as batches:
            self.trainer = Trainer(
                self.task,
                config,
                batches=batches,
                evaluators=evaluator_specs(config),
                context=EvaluationContext(
                    self.task, self.pretrain_model, data, config.seed, self.precision, self.folder
                ),
                callbacks=Callbacks(self.record, self.save, self.should_stop, self.roll_back),
            )
            if saved:
                if self.model:
                    self.model.head.load_state_dict(dict(saved.tensors[CLASSIFIER]))
                self.trainer.restore(
                    saved.state.step,
                    dict(saved.tensors[OPTIMIZER]),
                    seconds=self.log.total("seconds"),
                    skipped_batches=saved.state.skipped_batches,
                    accumulate=saved.state.accumulate,
                )
            if self.recipe.predicts_codes and not self.log.has("baselines"):
                self._measure_baselines()
            try:
                self.trainer.start()
                with stop_requested() as self.request:
                    reached = self.trainer.run()
                self.writer.wait()
                barrier()
                return reached
            except NonFiniteError as error:
                self.writer.wait()
                good = checkpoint.latest_folder(self.folder.checkpoints)
                last = f"the last checkpoint is {good}" if good else "there is no checkpoint yet"
                advice = f"{error.advice}; {last}; try {config.nonfinite_advice(self.device)}"
                raise NonFiniteError(error.step, error.what, advice) from None

    def _batches(self) -> Batches:
        config = self.recipe.train
        return Batches(
            self.data.train,
            batch_size=config.batch_size,
            seed=config.seed,
            device=self.device,
            augment=self.recipe.data.augment,
            workers=self.recipe.data.workers,
            own=own_images(config.batch_size),
        )

    def _measure_baselines(self) -> None:
        objective = self.recipe.objective if self.model is None else self.model.objective
        model, config, data = PretrainModel(self.network, objective), self.recipe.train, self.data
        held_out = {
            "validation": data.validation.sample(config.evaluate_images),
            "test": data.test.sample(config.num_test_images),
        }
        found = measure_baselines(model, self.recipe.model.head, data.train, held_out, seed=config.seed)
        for split, numbers in found.items():
            self.record({"kind": "baselines", "held_out": split, **numbers, "step": self.trainer.step})

    def _test(self, step: int) -> None:
        test, seed = self.data.test.sample(self.recipe.train.num_test_images), self.recipe.train.seed
        if len(test) == 0 or self.log.has("evaluation", "test"):
            return
        best, selecting = step, self._refit_selecting
        if self.early_stopping:
            saved = find_weights(self.folder.saved.path)
            self._load_weights(saved)
            best, selecting = saved.state.step, self._selecting(best=not saved.skipped)
            self._note(step, *saved.skipped)
        batches = list[Mapping[str, Metric]]()
        with whole_weights(self.task.module):
            precision, observe = self.precision, batches.append
            metrics = evaluate_split(self.task, test, seed=seed, precision=precision, observe=observe)
        if not all(map(math.isfinite, metrics.values())):
            raise NonFiniteError(best, "the test loss")
        counts = {"images": len(test), "available_images": test.available}
        if self.model is not None:
            counts |= {"train_images": len(self.data.train), "selection_images": selecting}
        correct = [each["accuracy"] for each in batches if "accuracy" in each]
        baselines = majority_baseline(replace(self.data, test=test)) if correct else {}
        measured = measurement_of(self.data, "test", test)
        measured = replace(measured, selection=selection_text(selecting), baselines=baselines)
        values = {**metrics, **counts, **save_test_images(self.folder, test, correct)}
        values |= {"split": "test", "last_step": step, "measurement": self._measured(measured, best)}
        self.record({"kind": "evaluation", "step": best, **values})
        if best == 0 < step:
            better = f"better validation accuracy; likely causes: {CAUSES}"
            better = better if self.classifies else "lower validation loss; try a lower optimizer.lr"
            self._note(step, f"the weights of step 0 were tested, as no later step has a {better}")

    def _note(self, step: int, *texts: str) -> None:
        for text in texts:
            self.record({"kind": "note", "step": step, "text": text})

    def _measured(self, measurement: Measurement, step: int | None = None) -> dict[str, Any]:
        seeds = {"train.seed": self.recipe.train.seed, **measurement.seeds}
        return to_dict(replace(measurement, labels_seen=self.origin.labels_at(step), seeds=seeds))

    def _selecting(self, *, best: bool) -> int:
        """Return the number of validation images that chose the step of the weights, or of a refit."""
        if best:
            return len(self.data.validation.sample(self.recipe.train.evaluate_images))
        return self._refit_selecting

    @cached_property
    def _refit_selecting(self) -> int:
        is_refit = self.recipe.data.train_on_validation
        selected = read_environment(self.folder).selected if is_refit else None
        return selected.measurement.images if selected else 0

    def _patience_exhausted(self) -> bool:
        return self.early_stopping is not None and self.early_stopping.should_stop

    def should_stop(self) -> bool:
        self.writer.check()
        return self.request.signal is not None or self.observer.stop() or self._patience_exhausted()

    def record(self, record: Record) -> None:
        """Write a log record, and save the weights where it has the best validation accuracy."""
        self.log.write(record)
        if self.early_stopping and self.early_stopping.update(record):
            self._write(self.folder.best, record["step"], {})
        if self.classifies:
            exhausted = self._patience_exhausted()
            text = chance_level_note(record, self.recipe.train, self.data, exhausted=exhausted)
            self._note(record["step"], *filter(None, [text]))

    def save(self, step: int, optimizer: dict[str, Tensor]) -> None:
        self.log.sync()
        self._write(checkpoint.step_folder(self.folder.checkpoints, step), step, {OPTIMIZER: optimizer})
        self.folder.publish()  # gives a new run its name
        self.log.path = self.folder.log

    def roll_back(self) -> tuple[int, dict[str, Tensor]]:
        """Load the last checkpoint and forget what was logged since; return its step and optimizer."""
        self.writer.wait()
        saved = find_checkpoint(self.folder.saved.path)
        step = saved.state.step
        self._load_weights(saved)
        self.log.rewind(step)
        early = self.early_stopping
        kept = early.rewind(step, self.log.read()) if early else []
        self._note(step, *saved.skipped, *kept)
        return step, dict(saved.tensors[OPTIMIZER])

    def _write(self, folder: Path, step: int, groups: Mapping[str, Mapping[str, Tensor]]) -> None:
        state = State(
            step=step,
            codec=self.network.codec.fingerprint(),
            data=self.data.fingerprint,
            run_id=self.run_id,
            files=self.files,
            labels_seen=self.origin.labels_at(step),
            selection=selection_text(self._selecting(best=folder == self.folder.best)),
            decoder_valid=decoder_fits(self.recipe, step, self.folder, initially=self.origin.decoder_valid),
            origin=self.origin,
            seen_known=self.data.seen_known,
            classes=tuple(self.data.classes) if self.model else (),
            training_classes=tuple(sorted(training_classes(self.data) or ())) if self.model else None,
            **self.trainer.recovered(),
        )
        environment = {**self.recipe.train.environment(self.device), **plugin_records()}
        records = records_of(self.recipe, state, environment, {})
        self.writer.save(folder, {**self._weights(), **groups}, records)

    def _weights(self) -> dict[str, Mapping[str, Tensor]]:
        groups: dict[str, Mapping[str, Tensor]] = {MODEL: self.network.tensors()}
        if self.model is not None:
            groups[CLASSIFIER] = {name: each.detach() for name, each in self.model.head.state_dict().items()}
        return groups

    def _load_weights(self, saved: SavedRun) -> None:
        for group, tensors in self._weights().items():
            for name, tensor in tensors.items():
                tensor.copy_(shard_like(saved.tensors[group][name], tensor))
