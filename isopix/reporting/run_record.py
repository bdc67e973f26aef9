"""Read a run folder once into a typed `RunRecord`; files that cannot be read are listed in it."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from jaxtyping import Float
from PIL import Image
from torch import Tensor

from isopix.analysis.run import registered_analyses
from isopix.codecs.nearest_color import FIXED_POINT_SCALE
from isopix.core.config import from_dict
from isopix.finetuning.metrics import ClassificationMetrics
from isopix.plots.style import Figure
from isopix.probing.config import ProbeConfig
from isopix.probing.results import ProbeReport
from isopix.recipes.recipe import Recipe
from isopix.storage import checkpoint, log
from isopix.storage.checkpoint import Checkpoint
from isopix.storage.run_folder import RunFolder

T = TypeVar("T")
Values = dict[str, Any]
DEFAULTS = ProbeConfig()  # how iGPT probes (sections 2.4 and 3.4)
DECIDING = ("method", "features", "pool", "start_token", "mask_ensemble")  # what makes a probe iGPT's
UNREGISTERED = (
    "No analysis of this name is registered; load the plugin that computed it to see its figure."
    " The numbers are in analysis/{}."
)
FIXED_TENSORS = (".normals",)  # ends of the names of tensors that are drawn once and not trained


@dataclass(frozen=True)
class SavedImage:
    """A picture in `samples/` and the settings that it was made with."""

    name: str
    png: bytes
    facts: Values


@dataclass(frozen=True)
class SavedAnalysis:
    """The numbers of an analysis by `isopix analyze`, their figure and its caption.

    `figure` is None for an analysis that is not registered, whose caption says so.
    """

    title: str
    numbers: Values
    figure: Figure | None
    caption: str


@dataclass(frozen=True)
class SavedProbe:
    """A probe file: its report, and the images and command that it was made with."""

    report: ProbeReport
    step: int = 0
    data: str = ""
    limit: int | None = None
    images_hash: str | None = None
    written: str = ""
    command: list[str] = field(default_factory=list)
    folder: str | None = None

    @property
    def has_paper_settings(self) -> bool:
        """Whether it probed all layers with iGPT's features and classifier."""
        config = self.report.config
        same = all(getattr(config, name) == getattr(DEFAULTS, name) for name in DECIDING)
        return same and config.layer is None

    def to_dict(self) -> Values:
        """Return all of it as plain values."""
        facts = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "report"}
        return {**facts, **self.report.to_dict()}


@dataclass(frozen=True)
class SavedEvaluation:
    """The metrics of one `isopix evaluate`, and the images, masks and command that it was made with."""

    metrics: ClassificationMetrics
    data: str
    masks: int
    step: int = 0
    written: str = ""
    command: list[str] = field(default_factory=list)
    folder: str | None = None


@dataclass(frozen=True)
class Weights:
    """What the newest intact checkpoint holds."""

    step: int
    parameters: int
    colors: Float[Tensor, "K 3"] | None  # levels in 0..255; None for a codec without a palette
    classes: int = 0  # of a fine-tuned run


@dataclass(frozen=True)
class RunRecord:
    """A run. Pictures, probes, verifications and evaluations are in the order of their steps.

    `settings` is recipe.json as it was written; `recipe` is None where this version cannot read it.
    `problems` lists files that could not be read, with the reason.
    """

    path: Path
    settings: Values
    recipe: Recipe | None = None
    environment: Values = field(default_factory=dict)
    log: list[Values] = field(default_factory=list)
    weights: Weights | None = None
    images: list[SavedImage] = field(default_factory=list)
    probes: list[SavedProbe] = field(default_factory=list)
    verifications: list[Values] = field(default_factory=list)
    evaluations: list[SavedEvaluation] = field(default_factory=list)
    analyses: list[SavedAnalysis] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def imported_from(self) -> str:
        """The origin of an imported model; empty for a run that was trained here."""
        return str(self.environment.get("imported") or "")

    @property
    def probe(self) -> SavedProbe | None:
        """The run's primary probe: the newest with iGPT's settings, or else the newest."""
        return next(
            reversed([probe for probe in self.probes if probe.has_paper_settings] or self.probes), None
        )

    @property
    def predicts_codes(self) -> bool:
        """Whether the loss of codes is trained; False for fine-tuning on classes alone."""
        return self.recipe is None or self.recipe.predicts_codes


def read_run(run: RunFolder) -> RunRecord:
    """Read a run folder. Raises ValueError if its recipe is not JSON."""
    reader = _Reader()
    settings = _json(run.recipe)
    verified = sorted(run.probes.glob("verify-*.json"))
    evaluated = sorted(run.evaluations.glob("*.json"))
    probed = sorted(set(run.probes.glob("*.json")) - set(verified))
    return RunRecord(
        path=run.path,
        settings=settings,
        recipe=reader.read(run.recipe, lambda path: from_dict(Recipe, settings)),
        environment=reader.read(run.environment, _json) or {},
        log=reader.records(run.log),
        weights=reader.read(run.checkpoints, _weights),
        images=sorted(reader.each(sorted(run.samples.glob("*.json")), _image), key=lambda x: _age(x.facts)),
        probes=sorted(reader.each(probed, _probe), key=lambda probe: (probe.step, probe.written)),
        verifications=sorted(reader.each(verified, _verification), key=_age),
        evaluations=sorted(reader.each(evaluated, _evaluation), key=lambda x: (x.step, x.written)),
        analyses=reader.each(_analysis_files(run.analysis), _analysis),
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
    """Reads files and collects the problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, path: Path, parse: Callable[[Path], T]) -> T | None:
        """Return what `parse` makes of a file; None if it is missing or cannot be read."""
        if not path.exists():
            return None
        try:
            return parse(path)
        # Values of another type than expected raise TypeError, or AttributeError for a missing method.
        except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            self.problems.append(f"{path.name}: {' '.join(reason.split())}")
            return None

    def each(self, paths: list[Path], parse: Callable[[Path], T]) -> list[T]:
        """Return all that can be read."""
        return [found for path in paths if (found := self.read(path, parse)) is not None]

    def records(self, path: Path) -> list[Values]:
        """Return the lines of a log that can be read."""
        records, bad = self.read(path, log.read_valid_records) or ([], [])
        if bad:
            lines = f"line {bad[0]} is" if len(bad) == 1 else f"{len(bad)} lines, the first is {bad[0]}, are"
            self.problems.append(f"{path.name}: {lines} not a record")
        return records


def _age(facts: Values) -> tuple[int, str]:
    return int(facts.get("step", 0)), str(facts.get("written", ""))


def _json(path: Path) -> Values:
    try:
        values = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} is not a JSON object")
    return values


def _image(path: Path) -> SavedImage:
    facts = _json(path)
    png = path.with_suffix(".png").read_bytes()
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            image.load()
    except Exception as error:
        raise ValueError(f"{path.stem}.png cannot be read: {error}") from None
    return SavedImage(path.stem, png, {"kind": "samples", "step": 0} | facts)


def _probe(path: Path) -> SavedProbe:
    values = _json(path)
    own = {each.name for each in fields(ProbeReport)}
    report = ProbeReport.from_dict({name: each for name, each in values.items() if name in own})
    for result in (report.network, *report.baselines.values()):
        _ = result.best  # raises IndexError here and not later
    return SavedProbe(report, **_facts(SavedProbe, values, "report"))


def _verification(path: Path) -> Values:
    """Return a test loss of `isopix verify`."""
    values = _json(path)
    facts = {"loss_nats": float(values["loss_nats"]), "images": int(values["images"])}
    return values | facts | {"data": str(values["data"])}


def _evaluation(path: Path) -> SavedEvaluation:
    values = _json(path)
    own = {each.name: values[each.name] for each in fields(ClassificationMetrics)}
    metrics = from_dict(ClassificationMetrics, own)
    return SavedEvaluation(metrics, **_facts(SavedEvaluation, values, "metrics"))


def _facts(cls: type[SavedProbe | SavedEvaluation], values: Values, numbers: str) -> Values:
    """Return the fields of a class but for its numbers; null is the same as absent."""
    names = {each.name for each in fields(cls)} - {numbers}
    return {name: values[name] for name in names if values.get(name) is not None}


def _analysis_files(folder: Path) -> list[Path]:
    """Return the files of saved analyses: the registered ones in their order, then the others."""
    names = dict.fromkeys([*registered_analyses(), *sorted(path.stem for path in folder.glob("*.json"))])
    return [folder / f"{name}.json" for name in names]


def _analysis(path: Path) -> SavedAnalysis:
    numbers, analysis = _json(path), registered_analyses().get(path.stem)
    if analysis is None:
        return SavedAnalysis(path.stem, numbers, None, UNREGISTERED.format(path.name))
    caption = f"{analysis.caption(numbers)} Step {numbers['step']:,}."
    return SavedAnalysis(analysis.label(), numbers, analysis.figure(numbers), caption)


def _weights(checkpoints: Path) -> Weights | None:
    found = checkpoint.load_latest(checkpoints, ("model",)).checkpoint
    return None if found is None else _weights_of(found)


def _weights_of(found: Checkpoint) -> Weights:
    tensors = found.tensors["model"]
    palette = [tensor for name, tensor in tensors.items() if name.endswith("codec.fixed")]
    fixed = {name for name in tensors if name.endswith(FIXED_TENSORS)}
    trained = [each for name, each in tensors.items() if each.is_floating_point() and name not in fixed]
    return Weights(
        step=int(found.records["state"]["step"]),
        parameters=sum(tensor.numel() for tensor in trained),
        colors=palette[0] / FIXED_POINT_SCALE if palette else None,
        classes=len(found.records["state"].get("classes", ())),
    )
