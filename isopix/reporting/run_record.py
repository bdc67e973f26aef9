"""A run folder as a typed record: its settings, log, weights, and the results of verbs in it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.codecs.palette import stored_colors
from isopix.core.config import from_dict, to_dict
from isopix.core.text import printable
from isopix.core.types import Images
from isopix.probing.config import ProbeConfig
from isopix.probing.linear import LbfgsProbe
from isopix.probing.results import ProbeResult
from isopix.recipes.recipe import Recipe
from isopix.runs.results import VerificationResult
from isopix.storage import checkpoint, log
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import read_json
from isopix.storage.checkpoint import Checkpoint
from isopix.storage.result import Result
from isopix.storage.run_folder import RunFolder

T = TypeVar("T")
R = TypeVar("R", bound=Result)
Values = dict[str, Any]
Kinds = Mapping[str, type[Result]]  # classes of results by the verb that saves them
NUMBERS: Kinds = {"probe": ProbeResult, "verify": VerificationResult}  # of a headline or a model card
FIXED_TENSORS = (".normals",)  # ends of the names of tensors that are drawn once and not trained


@dataclass(frozen=True)
class DataSample:
    """Training images [B 3 H W] with their labels (-1 for none), names of the classes, and the number of
    images of each class in the training, validation and test splits [C 3].
    """

    images: Images
    labels: list[int]
    classes: list[str]
    counts: list[list[int]]


@dataclass(frozen=True)
class Weights:
    """What the newest intact checkpoint holds."""

    step: int
    parameters: int
    colors: Float[Tensor, "K 3"] | None  # levels in 0..255; None for a codec without a palette
    classes: int = 0  # of a fine-tuned run


@dataclass(frozen=True)
class RunRecord:
    """A run; its results are in the order of their steps, then of the time of writing.

    `settings` is recipe.json as it was written; `recipe` is None where this version cannot read it.
    `problems` lists files that could not be read, with the reason.
    """

    path: Path
    settings: Values
    recipe: Recipe | None = None
    environment: Values = field(default_factory=dict)
    log: list[Values] = field(default_factory=list)
    weights: Weights | None = None
    data: DataSample | None = None
    results: list[Result] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def of(self, kind: type[R]) -> list[R]:
        """Return the results of a kind."""
        return [each for each in self.results if isinstance(each, kind)]

    @property
    def imported_from(self) -> str:
        """The origin of an imported model; empty for a run that was trained here."""
        return str(self.environment.get("imported") or "")

    @property
    def probe(self) -> ProbeResult | None:
        """The run's primary probe: with iGPT's settings and the recipe's pool, of the run's own images and of
        the most images where there are several; the newest of equals.
        """
        source = "" if self.recipe is None else PurePath(self.recipe.data.source).name
        usual = ProbeConfig(pool=self.recipe.pool if self.recipe else "mean")

        def fullness(probe: ProbeResult) -> tuple[bool, bool, int]:
            names = ("features", "pool", "start_token", "mask_ensemble", "layer")
            same = all(getattr(probe.config, name) == getattr(usual, name) for name in names)
            images = sum(probe.network.num_images.values())
            return same and probe.method == to_dict(LbfgsProbe()), source == probe.data, images

        return max(reversed(self.of(ProbeResult)), key=fullness, default=None)

    @property
    def predicts_codes(self) -> bool:
        """Whether the loss of codes is trained; False for fine-tuning on classes alone."""
        return self.recipe is None or self.recipe.predicts_codes


def read_run(run: RunFolder, kinds: Kinds = NUMBERS) -> RunRecord:
    """Read a run folder, and its results of these kinds. Raises ValueError if its recipe is not JSON."""
    reader = _Reader(run.path)
    settings = read_json(run.recipe)
    return RunRecord(
        path=run.path,
        settings=settings,
        recipe=reader.read(run.recipe, lambda path: from_dict(Recipe, settings)),
        environment=reader.read(run.environment, read_json) or {},
        log=reader.records(run.log),
        weights=reader.read(run.checkpoints, _weights),
        data=reader.read(run.data_sample, _data_sample),
        results=list(reader.results(kinds)),
        problems=reader.problems,
    )


def read_run_or_model(path: Path) -> RunRecord:
    """Read a run folder or a saved model. Raises ValueError for what is neither or is damaged."""
    if not (path / checkpoint.MANIFEST).is_file():
        return read_run(RunFolder.open(path))
    found = checkpoint.load_checkpoint(path, ("model",))
    imported = {key: each for key, each in found.records.get("imported", {}).items() if key != "tensors"}
    return RunRecord(
        path=path,
        settings=found.records["recipe"],
        recipe=from_dict(Recipe, found.records["recipe"]),
        environment={**found.records.get("environment", {}), **imported},
        weights=_weights_of(found),
    )


class _Reader:
    """Reads files of a folder and collects the problems."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.problems = folder, list[str]()

    def read(self, path: Path, parse: Callable[[Path], T]) -> T | None:
        """Return what `parse` makes of a file; None if it is missing or cannot be read."""
        try:
            return parse(path) if path.exists() else None
        except (ValueError, LookupError, TypeError, OSError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            self.problems.append(f"{path.name}: {' '.join(reason.split())}".replace(f"{self.folder}/", ""))
            return None

    def records(self, path: Path) -> list[Values]:
        """Return the lines of a log that can be read."""
        records, bad = self.read(path, log.read_valid_records) or ([], [])
        if bad:
            lines = f"line {bad[0]} is" if len(bad) == 1 else f"{len(bad)} lines, the first is {bad[0]}, are"
            self.problems.append(f"{path.name}: {lines} not a record")
        return records

    def results(self, kinds: Kinds) -> Iterator[Result]:
        """Yield the results of these kinds in order; files without a call are of others."""
        found: list[Result] = []
        for path in (*sorted(self.folder.glob("*/*.json")), *sorted(self.folder.glob("*/*/*.json"))):
            verb = (self.read(path, read_json) or {}).get("call", {}).get("verb")
            if verb in kinds and (result := self.read(path, kinds[verb].read)):
                found.append(result)
        yield from sorted(found, key=lambda each: (getattr(each, "step", 0), each.call["written"]))


def _data_sample(path: Path) -> DataSample:
    arrays = read_arrays(path)
    names = [printable(str(each)) for each in arrays["classes"]]
    images = torch.from_numpy(arrays["images"])
    return DataSample(images, arrays["labels"].tolist(), names, arrays["counts"].tolist())


def _weights(checkpoints: Path) -> Weights | None:
    found = checkpoint.load_latest(checkpoints, ("model",)).checkpoint
    return None if found is None else _weights_of(found)


def _weights_of(found: Checkpoint) -> Weights:
    tensors = found.tensors["model"]
    trained = [
        each
        for name, each in tensors.items()
        if each.is_floating_point() and not name.endswith(FIXED_TENSORS)
    ]
    return Weights(
        step=int(found.records["state"]["step"]),
        parameters=sum(tensor.numel() for tensor in trained),
        colors=stored_colors(tensors),
        classes=len(found.records["state"].get("classes", ())),
    )
