"""Run: a run folder in Python, and the network and images that a function reads for it."""

import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from isopix.core import device as devices
from isopix.core.device import DeviceLike, Precision, native_precision
from isopix.core.measurement import Measurement
from isopix.core.text import command_line
from isopix.core.verb import checked
from isopix.data import dataset
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.known_sources import require_known_source
from isopix.model.network import evaluation_mode
from isopix.pretrained.inputs import image_size
from isopix.pretrained.model import PretrainedModel
from isopix.recipes.recipe import Recipe
from isopix.runs.image_lists import leave_out_seen
from isopix.runs.load import LoadedRun, load_run, saved_recipe
from isopix.runs.results import TrainingResult
from isopix.runs.shipped import writable_model
from isopix.runs.training import RunStatus
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

T = TypeVar("T")
DataLike = str | os.PathLike[str] | ImageDataset

logger = logging.getLogger("isopix")


@dataclass(frozen=True)
class RunMetrics:
    """Metrics in the log of a run: the latest of each split by name, the losses of learning-free baselines by
    split and name, and all records in order.
    """

    train: Mapping[str, int | float]
    validation: Mapping[str, int | float]
    test: Mapping[str, int | float]
    history: tuple[Record, ...]
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Run:
    """A run folder.

    Raises ValueError if the folder is not a run folder.
    """

    @checked
    def __init__(self, folder: str | os.PathLike[str], *, device: DeviceLike = "auto"):
        self.folder, self.device = Path(folder), device
        RunFolder.open(self.folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def recipe(self) -> Recipe:
        """All settings of the run."""
        return saved_recipe(self.folder)

    @property
    def metrics(self) -> RunMetrics:
        """The metrics in the log; none for a run without one."""
        log = RunFolder(self.folder).log
        history = tuple(read_log(log)) if log.is_file() else ()
        train: Record = next((record for record in reversed(history) if record["kind"] == "train"), {})
        evaluations = {each["split"]: _numbers(each) for each in history if each["kind"] == "evaluation"}
        baselines = {each["held_out"]: each["nats"] for each in history if each["kind"] == "baselines"}
        empty: dict[str, int | float] = {}
        return RunMetrics(
            train=_numbers(train),
            validation=evaluations.get("validation", empty),
            test=evaluations.get("test", empty),
            history=history,
            baselines=baselines,
        )

    @cached_property
    def model(self) -> PretrainedModel:
        """The best weights of a fine-tuned run, the newest of any other; loaded once."""
        return PretrainedModel(load_run(self.folder, device=devices.select_device(self.device)))


RunLike = Run | PretrainedModel | str | os.PathLike[str]


def run_folder(run: str | os.PathLike[str]) -> RunFolder:
    """Return the run folder at a path, of a Run, or of the copy of a model that comes with the package.

    Raises ValueError if it is not one.
    """
    return RunFolder.open(writable_model(Path(run)))


def require_writable(path: Path) -> None:
    """Raise ValueError, before anything is computed, if a file of a run could not be written to a path."""
    existing = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not os.access(existing, os.W_OK):
        raise ValueError(f"{existing} is read-only, and results are saved in {path}; copy the run folder")


@contextmanager
def open_run(
    source: RunLike, device: DeviceLike, precision: Precision = "fp32", *, writes: str = ""
) -> Iterator[tuple[RunFolder | None, PretrainedModel]]:
    """Yield the folder and the newest intact network of a run as a model of this precision, or a model as it
    is, without a folder, in evaluation mode. Raises ValueError if a run that it `writes` to is read-only.
    """
    if isinstance(source, PretrainedModel):
        with evaluation_mode(source):
            yield None, source
    else:
        folder = run_folder(source)
        if writes:
            require_writable(folder.path / writes)
        yield folder, PretrainedModel(load_network(folder.path, device), precision=precision)


def default_precision(source: RunLike, model: PretrainedModel) -> Precision:
    """Return the precision of a loaded model; of a run, that of its training, or fp32 if bf16 is emulated."""
    if source is model:
        return model.precision
    device = model.network.device
    own = model.loaded.recipe.train.precision_on(device)
    return own if native_precision(device) == "bf16" else "fp32"


def load_network(path: Path, device: DeviceLike) -> LoadedRun:
    """Return the newest intact network at a path; damaged checkpoints and changed plugins are logged as
    warnings.
    """
    loaded = load_run(path, device=devices.select_device(device))
    warn_of_damage(loaded)
    loaded.network.eval()
    return loaded


def warn_of_damage(loaded: LoadedRun) -> None:
    """Log a warning for each damaged checkpoint that was skipped, and for each plugin that has changed."""
    for reason in loaded.damaged:
        logger.warning("skipped: %s", reason)
    for change in loaded.changes:
        logger.warning("%s", change)


def load_images(settings: DataConfig) -> ImageDataset:
    """Load a dataset; unreadable files and copies that are left out are logged as warnings."""
    images = dataset.load_dataset(settings)
    for note in images.notes:
        logger.warning("%s", note)
    return images


def evaluation_images(loaded: LoadedRun, data: DataLike | None, limit: int | None = None) -> ImageDataset:
    """Return other images, or the run's own, at the model's resolution, with a validation split and all
    labels; `limit` keeps at most that many images of each split.

    Test images that the run was trained on or selected by are left out, and a warning counts them. Raises
    ValueError if none would be left, and for a dataset of another resolution.
    """
    if isinstance(data, ImageDataset):
        check_size(data, loaded)
        images = sample_of_each(data, limit)
    else:
        images = load_images(evaluation_data(loaded, data, limit))
    images, left_out = leave_out_seen(images, loaded.seen, known=loaded.seen_known)
    if left_out:
        logger.warning("%s", left_out)
    return images


def evaluation_data(
    loaded: LoadedRun, data: str | os.PathLike[str] | None, limit: int | None = None
) -> DataConfig:
    """Return the data settings of `evaluation_images`. Raises ValueError if `data` is None and the run's own
    are at a path that this user has not read before.
    """
    if data is None:
        require_known_source(loaded.recipe.data.source)
    settings = replace(loaded.recipe.data, train_on_validation=False, labels_per_class=None, subset=0)
    if data is not None:
        settings = replace(settings, source=os.fspath(data), limit=None)
    return settings if limit is None else replace(settings, limit=limit)


def leakage_warning(own: DataConfig, data: DataLike | None) -> tuple[str, ...]:
    """Return a warning if a run with these data settings was trained on the validation images of `data`."""
    if not own.train_on_validation or isinstance(data, ImageDataset):
        return ()
    if data is not None and not is_own(own, data):
        return ()
    return (
        "the run was refitted on training and validation images: choices made on the validation split are "
        "biased and validation accuracies are too high; the test images are unseen",
    )


def labels_warning(loaded: LoadedRun) -> tuple[str, ...]:
    """Return a warning if a network was trained on labels, or if that is not known."""
    seen = loaded.state.labels_seen
    if seen == 0:
        return ()
    count = "an unknown number of labels" if seen is None else f"the labels of {seen:,} different images"
    return (
        f"the network was trained on {count} before: these are not errors of few labels; for those, use the "
        "run before fine-tuning",
    )


def training_result(
    status: RunStatus, device: DeviceLike, resume: str, options: Sequence[object] = ()
) -> TrainingResult:
    """Return the result of a training, with the commands that apply to it, which take `options`."""
    run = Run(status.run.path, device=device)
    recipe, metrics = run.recipe, run.metrics
    evaluations = [each for each in metrics.history if each["kind"] == "evaluation"]
    loss = "loss_nats" if recipe.predicts_codes else "class_nats"
    tested = [each for each in evaluations if each["split"] == "test"]
    weights_step = tested[-1]["step"] if tested else status.step
    evaluations = [each for each in evaluations if each["step"] <= weights_step]
    applicable = {
        "evaluate": status.can_evaluate,
        "probe": status.can_probe,
        "sample" if recipe.objective.can_sample else "reconstruct": recipe.predicts_codes,
        "report": True,
    }
    categorical = recipe.predicts_codes and recipe.model.head.categorical
    return TrainingResult(
        recipe=recipe.name,
        step=status.step,
        weights_step=weights_step,
        finished=status.finished,
        losses={each["split"]: each[loss] for each in evaluations if loss in each},
        accuracies={each["split"]: each["accuracy"] for each in evaluations if "accuracy" in each},
        baselines=dict(metrics.baselines),
        uniform=math.log(recipe.model.codec.placeholder(recipe.grid).vocab_size) if categorical else None,
        resume=resume,
        next=tuple(
            command_line(name, run.folder, *options) for name, applies in applicable.items() if applies
        ),
        measurement=Measurement.from_dict(tested[-1]["measurement"]) if tested else None,
        path=run.folder,
        run=run,
    )


def _numbers(record: Mapping[str, Any]) -> dict[str, int | float]:
    return {name: value for name, value in record.items() if isinstance(value, int | float)}


def is_own(own: DataConfig, data: str | os.PathLike[str]) -> bool:
    """Return whether a name or a path is that of the images of a run with these data settings."""
    return os.fspath(data) == own.source or str(Path(data).resolve()) == own.source


def check_size(data: ImageDataset, loaded: LoadedRun) -> None:
    """Raise ValueError for a dataset of another resolution than the model's."""
    height, width = image_size(loaded.network.codec)
    for split in (data.train, data.validation, data.test):
        rows, cols = split.images.shape[2:]
        if (rows, cols) != (height, width):
            given = f"dataset '{data.name}' has images of {rows} x {cols} pixels"
            raise ValueError(f"{given}; this model reads {height} x {width}")


def sample_of_each(data: ImageDataset, limit: int | None) -> ImageDataset:
    """Return `limit` images of each split, equally many of each class as far as possible; all for None."""
    names, seed = ("train", "validation", "test"), data.seed or 0
    return replace(data, **{name: getattr(data, name).balanced_sample(limit, seed) for name in names})
