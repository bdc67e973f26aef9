"""A run folder as a typed record: its settings, log, weights, and the results of verbs in it."""

import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.codecs.palette import stored_colors
from isopix.core.config import from_dict, to_dict
from isopix.core.registry import Part
from isopix.core.text import error_line, printable
from isopix.core.types import Images
from isopix.finetuning.results import EvaluationResult
from isopix.probing.config import ProbeConfig
from isopix.probing.methods import LbfgsProbe
from isopix.probing.results import LowDataResult, ProbeResult
from isopix.recipes.recipe import Recipe
from isopix.runs.results import LossResult
from isopix.runs.state import RunEnvironment, typed
from isopix.storage import checkpoint, log
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import read_json
from isopix.storage.checkpoint import Checkpoint
from isopix.storage.plugins import load_remembered
from isopix.storage.result import Result, read_result
from isopix.storage.run_folder import RunFolder

T = TypeVar("T")
R = TypeVar("R", bound=Result)
Values = dict[str, Any]
Kinds = Mapping[str, Sequence[type[Result]]]  # classes of results by the verb that saves them
# Those of a headline or a model card.
NUMBERS: Kinds = {"probe": [ProbeResult, LowDataResult], "evaluate": [EvaluationResult, LossResult]}
FIXED_TENSORS = (".normals",)  # ends of the names of tensors that are drawn once and not trained
GROUPS = ("model", "objective", "data", "train", "finetune")
# What the files of an imported model state; the rest of its recipe is filled in by us.
STATED = ("codec", "block", "depth", "width", "objective", "rows", "cols")


@dataclass(frozen=True)
class DataSample:
    """Training images with labels (-1: none), class names, and counts [C 3] by class and split."""

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
    """A run with its results in order; `problems` lists files (`recipe` too) that could not be read."""

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
        return [each for each in self.results if isinstance(each, kind)]

    @property
    def imported_from(self) -> str:
        """The origin of an imported model; empty for a run that was trained here."""
        return str(self.environment.get("imported") or "")

    @property
    def probe(self) -> ProbeResult | None:
        """The newest probe with iGPT's settings and the recipe's pool, of the most of the run's images."""
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
        return self.recipe is None or self.recipe.predicts_codes

    @property
    def num_steps(self) -> int:
        """The number of training steps."""
        return max((each["step"] for each in self.log), default=self.weights.step if self.weights else 0)

    @property
    def images_seen(self) -> int:
        """The number of training images, repetitions included; without a log by the weights' step."""
        logged = [int(each["images"]) for each in self.log if each["kind"] == "train"]
        unlogged = self.weights.step * self.recipe.train.batch_size if self.weights and self.recipe else 0
        return max(logged, default=unlogged)


def read_run(run: RunFolder, kinds: Kinds = NUMBERS) -> RunRecord:
    """Read a run folder, and its results of these kinds. Raises ValueError if its recipe is not JSON."""
    problems: list[str] = []

    def read(path: Path, parse: Callable[[Path], T]) -> T | None:
        try:
            return parse(path) if path.exists() else None
        except (ValueError, LookupError, TypeError, OSError) as error:
            reason = error_line(error).replace(f"{run.path}/", "")
            problems.append(reason if reason.startswith(path.name) else f"{path.name}: {reason}")
            return None

    settings = public(run.read_recipe())
    environment = read(run.environment, _environment) or {}  # first, as it loads plugins
    records, bad = read(run.log, log.read_valid_records) or ([], [])
    if bad:
        problems.append(f"{run.log.name}: not a record: line {', '.join(map(str, bad))}")
    results: list[Result] = []
    for path in (*sorted(run.path.glob("*/*.json")), *sorted(run.path.glob("*/*/*.json"))):
        call = (read(path, read_json) or {}).get("call")
        found = kinds.get(str(call.get("verb"))) if isinstance(call, Mapping) else None
        if found and (result := read(path, partial(read_result, found))):
            results.append(result)
    return RunRecord(
        path=run.path,
        settings=settings,
        recipe=read(run.recipe, lambda path: from_dict(Recipe, settings)),
        environment=environment,
        log=records,
        weights=read(
            run.checkpoints,
            lambda path: checkpoint.load_latest(
                path, lambda each: _weights(checkpoint.load_checkpoint(each, ("model",)))
            )[0],
        ),
        data=read(run.data_sample, _data_sample),
        results=sorted(results, key=lambda each: (getattr(each, "step", 0), each.call["written"])),
        problems=problems,
    )


def read_run_or_model(path: Path) -> RunRecord:
    """Read a run folder or a saved model. Raises ValueError for what is neither or is damaged."""
    if not checkpoint.is_checkpoint(path):
        return read_run(RunFolder.open(path))
    found = checkpoint.load_checkpoint(path, ("model",))
    settings = public(found.records["recipe"])
    return RunRecord(
        path=path,
        settings=settings,
        recipe=from_dict(Recipe, settings),
        environment=public({**found.records["environment"], **typed(found).imported}),
        weights=_weights(found),
    )


def public(values: Any) -> Any:
    """Return values without the folders of absolute paths, alone or as `setting=path`."""
    if isinstance(values, Mapping):
        return {key: public(value) for key, value in values.items()}
    if isinstance(values, list):
        return list(map(public, values))
    if not isinstance(values, str):
        return values
    before, equals, path = values.rpartition("=")
    return before + equals + (PurePath(path).name if path.startswith("/") else path)


def repeatable(command: Sequence[str]) -> list[str]:
    """Return the words of a command as `public` does, but the data as it was given."""
    return [each if option == "--data" else public(each) for option, each in pairwise(["", *command])]


def _environment(path: Path) -> Values:
    environment = read_json(path)
    from_dict(RunEnvironment, environment)  # raises ValueError for values of other types
    load_remembered(environment.get("plugins", ()))
    return {**public(environment), "command": environment.get("command")}


def _data_sample(path: Path) -> DataSample:
    arrays = read_arrays(path)
    names = [printable(str(each)) for each in arrays["classes"]]
    images = torch.from_numpy(arrays["images"])
    return DataSample(images, arrays["labels"].tolist(), names, arrays["counts"].tolist())


def _weights(found: Checkpoint) -> Weights:
    tensors, state = found.tensors["model"], found.records["state"]
    trained = [each for name, each in tensors.items() if not name.endswith(FIXED_TENSORS)]
    parameters = sum(each.numel() for each in trained if each.is_floating_point())
    return Weights(int(state["step"]), parameters, stored_colors(tensors), len(state.get("classes", ())))


def grouped_settings(run: RunRecord) -> dict[str, list[tuple[str, str]]]:
    """Return (setting, value) pairs by group; of an imported model those that its files state."""
    if run.recipe is None:
        return {}
    groups = {name: list(_group(getattr(run.recipe, name), name)) for name in GROUPS}
    if run.imported_from:
        step, data = run.weights.step if run.weights else 0, run.environment.get("trained_on")
        groups = {group: [each for each in found if each[0] in STATED] for group, found in groups.items()}
        groups["train"] = [
            ("imported from", run.imported_from),
            ("step", f"{step:,}" if step else "not known"),
            ("trained on", f"{data} (as stated at import)" if data else "not known"),
        ]
    elif origin := run.environment.get("pretrained"):
        groups["train"].append(("initialized from", f"{origin['run']}, step {origin['step']:,}"))
    if run.num_steps and not run.imported_from:
        groups["train"].append(("images seen", f"{run.images_seen:,}"))
    return {name: found for name, found in groups.items() if found}


def _group(group: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(group, Part):
        yield name, group.label()
    for each in dataclasses.fields(group) if group else ():
        if (value := getattr(group, each.name)) not in (None, ()):
            yield each.name, setting_text(value)


def value_text(value: object) -> str:
    """Return the value of a setting, and a dash for None."""
    return "–" if value is None else str(value)


def setting_text(value: object) -> str:
    """Return a setting or a fact as text for people: a part by its label, a number with separators."""
    if isinstance(value, Part):
        return value.label()
    if isinstance(value, tuple):
        return "; ".join(map(setting_text, value))
    if isinstance(value, list):
        return shlex.join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {setting_text(each)}" for name, each in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "not recorded" if value is None else str(value)
