"""Run: a run folder in Python, and the network and images that a function reads for it."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch

from isopix.api.pretrained import PretrainedModel
from isopix.core import device as devices
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.dataset import load_dataset as load_dataset
from isopix.recipes.recipe import Recipe
from isopix.runs.load import Loaded, find, load, recipe_of
from isopix.runs.pretrain import Outcome, Watch
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

T = TypeVar("T")
SplitName = Literal["train", "validation", "test"]
DataLike = str | os.PathLike[str] | ImageDataset
Progress = Callable[[int, int], None]  # called with the number of items done and the total
TrainingProgress = Callable[[Recipe, Record], None]  # called with every record of the log of each training

logger = logging.getLogger("isopix")


@dataclass(frozen=True)
class RunMetrics:
    """Metrics in the log of a run: the latest of each split by name, and all records in order."""

    train: Mapping[str, int | float]
    validation: Mapping[str, int | float]
    test: Mapping[str, int | float]
    history: tuple[Record, ...]


class Run:
    """A run folder. `status` is how its training ended, None for a folder that was opened.

    Raises ValueError if the folder is not a run folder.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, device: str = "auto", status: Outcome | None = None
    ):
        self.folder, self.device, self.status = Path(folder), device, status
        RunFolder.open(self.folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def recipe(self) -> Recipe:
        """All settings of the run."""
        return recipe_of(find(self.folder, ())[0])

    @property
    def metrics(self) -> RunMetrics:
        """The metrics in the log."""
        history = tuple(read_log(RunFolder(self.folder).log))
        train: Record = next((record for record in reversed(history) if record["kind"] == "train"), {})
        evaluations = {
            record["split"]: _numbers(record) for record in history if record["kind"] == "evaluation"
        }
        empty: dict[str, int | float] = {}
        return RunMetrics(
            _numbers(train), evaluations.get("validation", empty), evaluations.get("test", empty), history
        )

    @cached_property
    def model(self) -> PretrainedModel:
        """The best weights of a fine-tuned run, the newest of any other; loaded once."""
        return PretrainedModel(load(self.folder, device=devices.select_device(self.device)))


RunLike = Run | PretrainedModel | str | os.PathLike[str]


class Interrupted(KeyboardInterrupt, Generic[T]):
    """Work that was asked to stop (Ctrl-C, SIGTERM, SIGUSR1) and saved first; `result` is what there is."""

    def __init__(self, message: str, result: T):
        super().__init__(message)
        self.result = result


def run_folder(run: str | os.PathLike[str]) -> RunFolder:
    """Return the run folder at a path or of a Run. Raises ValueError if it is not one."""
    return RunFolder.open(Path(run))


def open_source(source: RunLike, device: str) -> tuple[RunFolder | None, Loaded]:
    """Return the folder and the newest intact network of a run, or a model as it is, without a folder."""
    if isinstance(source, PretrainedModel):
        source.eval()
        return None, source.loaded
    folder = run_folder(source)
    return folder, load_network(folder.path, device)


def load_network(path: Path, device: str) -> Loaded:
    """Return the newest intact network at a path; damaged checkpoints are logged as warnings."""
    loaded = load(path, device=devices.select_device(device))
    for reason in loaded.passed_over:
        logger.warning("skipped damaged checkpoint: %s", reason)
    loaded.network.eval()
    return loaded


def load_dataset(settings: Data, seed: int) -> ImageDataset:
    """Load a data set; unreadable files are logged as warnings."""
    images = load_dataset(settings, seed=seed)
    for skipped in images.skipped:
        logger.warning("skipped %s: %s", skipped.path, skipped.reason)
    return images


def evaluation_images(loaded: Loaded, data: DataLike | None, limit: int | None = None) -> ImageDataset:
    """Return other images, or the run's own, at the model's resolution, with a validation split and all
    labels; `limit` takes the first of each split.
    """
    if isinstance(data, ImageDataset):
        return data if limit is None else _first(data, limit)
    return load_dataset(evaluation_data(loaded, data, limit), loaded.recipe.train.seed)


def evaluation_data(loaded: Loaded, data: str | os.PathLike[str] | None, limit: int | None = None) -> Data:
    """Return the data settings of `evaluation_images`."""
    settings = replace(loaded.recipe.data, fold_back=False, labels=None, subset=0)
    if data is not None:
        settings = replace(settings, source=os.fspath(data), limit=None)
    return settings if limit is None else replace(settings, limit=limit)


def leakage_warning(own: Data, data: DataLike | None) -> tuple[str, ...]:
    """Return a warning if the run was trained on the images of the validation split, else nothing."""
    if not own.fold_back or isinstance(data, ImageDataset) or not (data is None or _is_own(own, data)):
        return ()
    return (
        "the run was trained on the validation images too: choices made on them are optimistic, and "
        "validation accuracies are too high; the test images are unseen",
    )


def select_split(
    loaded: Loaded, data: DataLike | None, split: SplitName | None, limit: int | None
) -> tuple[ImageDataset, SplitName]:
    """Return images and the split to take: the one requested, else test; of other images that have no test
    split, all.
    """
    if isinstance(data, ImageDataset):
        images = evaluation_images(loaded, data, limit)
    elif data is None or _is_own(loaded.recipe.data, data):
        return evaluation_images(loaded, data, limit), split or "test"
    else:
        own = loaded.recipe.data
        settings = replace(own, source=os.fspath(data), limit=limit, fold_back=False, holdout=0.0)
        images = load_dataset(settings, loaded.recipe.train.seed)
    return images, split or ("test" if len(images.test) else "train")


def first_images(data: ImageDataset, split: SplitName, count: int) -> Images:
    """Return the first images of a split. Raises ValueError if there are fewer."""
    images = {"train": data.train, "validation": data.validation, "test": data.test}[split].images
    if not 1 <= count <= len(images):
        raise ValueError(f"count is {count}; {data.name} has {len(images)} images in its {split} split")
    return images[:count]


@contextmanager
def observer(
    recipe: Recipe, device: torch.device, progress: TrainingProgress | None, *, tensorboard: bool = False
) -> Iterator[Watch]:
    """Yield the observer of a training that calls `progress`; its first record says what is trained."""
    if progress is None:
        yield Watch(tensorboard=tensorboard)
        return
    work = f"{recipe.data.source}, {recipe.train.steps} steps of {recipe.train.batch_size}"
    text = f"{recipe.name} on {work}, {devices.describe_device(device)}"
    progress(recipe, {"kind": "note", "step": 0, "text": text})
    yield Watch(partial(progress, recipe), tensorboard=tensorboard)


def finished(run: RunFolder, outcome: Outcome, device: str) -> Run:
    """Return the run. Raises Interrupted, with the run, if it was asked to stop before its end."""
    result = Run(run.path, device=device, status=outcome)
    if not outcome.finished:
        raise Interrupted(f"stopped at step {outcome.step} and saved: {run.path}", result)
    return result


def counter(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Return a function of the number done that calls `progress` with the total too."""
    return (lambda done: None) if progress is None else lambda done: progress(done, total)


def shared_overrides(
    *, data: str | os.PathLike[str] | None, limit: int | None, seed: int | None, palette: object = None
) -> dict[str, Any]:
    """Return the settings that the arguments shared by several functions override, by path."""
    palette_path = None if palette is None else str(palette)
    source = None if data is None else os.fspath(data)
    return {"data.source": source, "data.limit": limit, "codec.source": palette_path, "seed": seed}


def _numbers(record: Mapping[str, Any]) -> dict[str, int | float]:
    return {name: value for name, value in record.items() if isinstance(value, int | float)}


def _is_own(own: Data, data: str | os.PathLike[str]) -> bool:
    """Return whether these are the images of the run."""
    return os.fspath(data) == own.source or str(Path(data).resolve()) == own.source


def _first(data: ImageDataset, limit: int) -> ImageDataset:
    first = {name: getattr(data, name).first(limit) for name in ("train", "validation", "test")}
    return replace(data, **first)
