"""Opening a run: a model from its path, a run folder in Python, and the network that a verb reads."""

import logging
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from isopix.core.config import from_dict
from isopix.core.device import DeviceLike, Precision, native_precision, select_device
from isopix.core.text import command_line
from isopix.core.verb import checked
from isopix.generate.sample import GenerationVerb, generation_verbs
from isopix.model.backbone import FeatureKind
from isopix.model.network import evaluation_mode
from isopix.model.positions import Pool
from isopix.pretrained.model import PretrainedModel
from isopix.recipes.recipe import Recipe
from isopix.runs.load import find_model, load_run, saved_recipe, writable_model
from isopix.runs.results import LR_SEARCH, LRSearchResult, TrainingResult
from isopix.runs.state import RunStatus
from isopix.storage import hub
from isopix.storage.log import read_log
from isopix.storage.result import Measurement
from isopix.storage.run_folder import RunFolder, own_folder, reject_huggingface_model
from isopix.train.trainer import Record

logger = logging.getLogger("isopix")


@checked
def load(
    name_or_path: str | os.PathLike[str],
    *,
    layer: int = -1,
    pool: Pool | None = None,
    features: FeatureKind = "normed",
    device: DeviceLike = "auto",
    precision: Precision = "fp32",
) -> PretrainedModel:
    """Load a model from a run folder, a folder of `save`, a name of `list_models`, or the Hub (`owner/name`).

    `pool` is by default that of the recipe: `first` (the class token) of a model that has one, else `mean`.
    Warnings report damaged checkpoints and plugins. Raises ValueError if there is no such model or it is
    damaged, RuntimeError if the Hub cannot be reached.
    """
    folder = hub.resolve_path(find_model(Path(name_or_path)))
    reject_huggingface_model(folder, name_or_path)
    loaded = load_run(folder, device=select_device(device))
    for text in loaded.warnings:
        logger.warning("%s", text)
    return PretrainedModel(loaded, layer=layer, pool=pool, features=features, precision=precision)


class Run:
    """A run folder. Raises ValueError for any other folder."""

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
        return saved_recipe(self.folder)

    @property
    def log(self) -> list[Record]:
        """The records of the log, in order; none for a run without one."""
        log = RunFolder(self.folder).log
        return read_log(log) if log.is_file() else []

    @cached_property
    def model(self) -> PretrainedModel:
        """The best weights of a run that selects them, the newest of any other; loaded once."""
        return load(self.folder, device=self.device)


RunLike = Run | PretrainedModel | str | os.PathLike[str]


def run_folder(run: str | os.PathLike[str]) -> RunFolder:
    """Return the run folder at a path, or of the copy of a model that comes with the package."""
    return RunFolder.open(writable_model(Path(run)))


def require_writable(path: Path) -> None:
    """Raise ValueError, before anything is computed, if results could not be written to a folder."""
    existing = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not existing.is_dir():
        raise ValueError(f"{existing} is a file; results are several files: give a folder")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"{existing} is read-only, and results are saved in {path}; copy the run folder")


@contextmanager
def open_run(
    source: RunLike,
    device: DeviceLike,
    *,
    writes: str = "",
    verb: GenerationVerb | None = None,
    out: Path | None = None,
    suffixes: Sequence[str] = (".png", ""),
) -> Iterator[tuple[RunFolder | None, PretrainedModel]]:
    """Yield the folder and the newest intact network of a run, in evaluation mode.

    There is no folder for a model, nor where results go to `out`, a file of one of the suffixes.
    """
    if out is not None:
        if out.suffix not in suffixes:
            allowed = " or ".join(f"FILE{each}" if each else "a folder" for each in suffixes)
            raise ValueError(f"out is {out}; allowed: {allowed}")
        require_writable(out.parent if out.suffix else out)
    if isinstance(source, PretrainedModel):
        with evaluation_mode(source):
            yield None, source
    else:
        path = find_model(Path(source))
        folder = RunFolder.open(path)
        if writes and not out and path == Path(source):
            require_writable(own_folder(folder.path, writes))
        model = load(path, device=device)
        if verb:
            model.require(verb)
        yield (None if out else run_folder(path)), model  # of a model of the package the copy


def default_precision(source: RunLike, model: PretrainedModel) -> Precision:
    """Return the precision of a loaded model; of a run, that of its training, or fp32 if bf16 is emulated."""
    if source is model:
        return model.precision
    device = model.network.device
    own = model.loaded.recipe.train.precision_on(device)
    return own if native_precision(device) == "bf16" else "fp32"


def training_result(status: RunStatus, device: DeviceLike, resume: str) -> TrainingResult:
    """Return the result of a training, with the commands that apply to it."""
    run = Run(status.run.path, device=device)
    recipe, log = run.recipe, run.log
    evaluations = [each for each in log if each["kind"] == "evaluation"]
    loss = "loss_nats" if recipe.predicts_codes else "class_nats"
    tested = [each for each in evaluations if each["split"] == "test"]
    weights_step = tested[-1]["step"] if tested else status.step
    evaluations = [each for each in evaluations if each["step"] == weights_step]
    applicable = {
        "evaluate": status.can_evaluate,
        "probe": status.can_probe,
        **{verb: recipe.predicts_codes for verb in generation_verbs(recipe.objective) if verb != "complete"},
        "report": True,
    }
    search = RunFolder(run.folder).selection / LR_SEARCH
    categorical = recipe.predicts_codes and recipe.model.head.categorical
    return TrainingResult(
        recipe=recipe.name,
        step=status.step,
        weights_step=weights_step,
        finished=status.finished,
        losses={each["split"]: each[loss] for each in evaluations if loss in each},
        accuracies={each["split"]: each["accuracy"] for each in evaluations if "accuracy" in each},
        baselines={each["held_out"]: each["nats"] for each in log if each["kind"] == "baselines"},
        uniform=math.log(recipe.model.codec.placeholder(recipe.grid).vocab_size) if categorical else None,
        resume=resume,
        next=tuple(command_line(name, run.folder) for name, fits in applicable.items() if fits),
        measurement=from_dict(Measurement, tested[-1]["measurement"]) if tested else None,
        path=run.folder,
        run=run,
        lr_search=LRSearchResult.read(search) if search.is_file() else None,
    )
