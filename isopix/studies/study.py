"""Study: trials over seeds, each of which trains and measures a network; they run in parallel and resume."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from isopix.core.config import from_dict
from isopix.core.device import DeviceLike
from isopix.core.progress import announce, track
from isopix.core.signals import Interrupted, stop_requested
from isopix.core.text import naming
from isopix.data.load import load_dataset
from isopix.probing.probe import ProbeMethod, probe_method
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.pretrain import require_validation
from isopix.runs.start import with_absolute_paths
from isopix.storage.atomic import LOCK_FILE, exclusive_lock, read_json, write_json
from isopix.storage.provenance import with_provenance
from isopix.storage.run_folder import own_folder, require_new
from isopix.studies.executor import in_processes, run_all, slots_on
from isopix.studies.results import TrialsResult
from isopix.studies.trial import StudyTrial, run_trial, trial_name


@dataclass(frozen=True)
class StudyPlan:
    """Cells of a scale by name, over seeds 0, 1, ..., with overrides (`path=value`) and any other probe."""

    scale: str
    cells: tuple[str, ...]
    seeds: int
    data: str | None
    settings: tuple[str, ...] = ()
    probe: str | None = None

    def merged(self, other: "StudyPlan", order: Sequence[str]) -> "StudyPlan":
        """Return both plans in one, with the other's images if it has some, which may lie elsewhere."""
        for name in ("scale", "settings", "probe"):
            old, new = getattr(self, name), getattr(other, name)
            if old != new:
                raise ValueError(f"the study has {name} {old or 'none'}, not {new or 'none'}")
        cells = tuple(each for each in order if each in {*self.cells, *other.cells})
        data = self.data if other.data is None else other.data
        return replace(other, cells=cells, seeds=max(self.seeds, other.seeds), data=data)

    @property
    def trials(self) -> list[str]:
        return [trial_name(each, seed) for each in self.cells for seed in range(self.seeds)]


T = TypeVar("T", bound=StudyTrial)


class Study(abc.ABC, Generic[T]):
    """The trials of a plan in a folder."""

    name: ClassVar[str]
    file: ClassVar[str] = "study.json"
    seeds: ClassVar[Mapping[str, int]]  # by scale
    jobs: ClassVar[int | None] = None  # at a time, where times are compared
    result: ClassVar[type[TrialsResult]]

    def __init__(self, path: Path, planned: StudyPlan):
        self.path, self.plan = path.resolve(), planned

    @classmethod
    @abc.abstractmethod
    def cells(cls, scale: str) -> Sequence[str]:
        """Return the names of all cells of a scale."""

    @abc.abstractmethod
    def trial(self, cell: str, seed: int) -> T:
        """Return the trial of a cell."""

    @abc.abstractmethod
    def write_up(self) -> TrialsResult:
        """Write figures and page, from the trials that are done."""

    @classmethod
    def planned(
        cls,
        scale: str,
        *,
        data: str | None = None,
        pattern: str = "*",
        seeds: int | None = None,
        settings: Sequence[str] = (),
        probe: str | None = None,
    ) -> StudyPlan:
        """Return a plan of the cells whose names match a comma-separated pattern."""
        if scale not in cls.seeds:
            raise ValueError(f"{cls.name} has no scale '{scale}'; allowed: {', '.join(cls.seeds)}")
        cells, patterns = cls.cells(scale), pattern.split(",")
        found = tuple(each for each in cells if any(fnmatchcase(each, one) for one in patterns))
        if not found:
            known = ", ".join(cells)
            raise ValueError(f"no trial of scale '{scale}' matches '{pattern}'; trials: {known}")
        if probe is not None:
            probe_method(probe)
        return StudyPlan(scale, found, seeds or cls.seeds[scale], data, tuple(settings), probe)

    @classmethod
    def from_plan(cls, path: Path, planned: StudyPlan) -> Self:
        """Return the study of a plan, new or extended by its cells and seeds; nothing is written."""
        if (path / cls.file).is_file():
            planned = cls.open(path).plan.merged(planned, cls.cells(planned.scale))
        else:
            require_new(path, [LOCK_FILE])
        return cls(path, planned)

    @classmethod
    @contextmanager
    def create(cls, path: Path, planned: StudyPlan) -> Iterator[Self]:
        """Write the plan and yield the study, for one process at a time."""
        path.mkdir(parents=True, exist_ok=True)
        own_folder(path)
        with exclusive_lock(path, "study"):
            study = cls.from_plan(path, planned)  # after another process, which may have extended it
            (study.path / "results").mkdir(exist_ok=True)
            write_json(study.path / cls.file, with_provenance({"kind": "study", **asdict(study.plan)}))
            yield study

    @classmethod
    def open(cls, path: Path) -> Self:
        if not (path / cls.file).is_file():
            raise ValueError(f"{path} is not a study; isopix reproduce {cls.name} makes one")
        values = read_json(path / cls.file)
        with naming(str(path / cls.file)):
            own = {name: values[name] for name in StudyPlan.__dataclass_fields__ if name in values}
            return cls(path, from_dict(StudyPlan, own))

    @classmethod
    def scale_in(cls, path: Path) -> str:
        """Return the scale of the study in a folder, `tiny` if there is none."""
        return cls.open(path).plan.scale if (path / cls.file).is_file() else "tiny"

    def require_images(self) -> None:
        """Raise ValueError before training for missing images, or others than those of finished trials."""
        recipe = self.trials[0].recipe
        data = load_dataset(recipe.data).labeled("study")
        require_validation(recipe, data, "a layer")
        for name, result in self.results().items():
            if result.environment.get("data", data.fingerprint) != data.fingerprint:
                raise ValueError(
                    f"{recipe.data.source} has other images than those of {name}, which is done; give the "
                    "same images as before, or another --out"
                )

    @cached_property
    def trials(self) -> list[T]:
        """Every trial, seed by seed, the most expensive first so that none runs alone at the end.

        Raises ValueError for trials that only another version has.
        """
        known = self.cells(self.plan.scale)
        if unknown := [each for each in self.plan.cells if each not in known]:
            raise ValueError(f"{self.path} has trials of another version: {', '.join(unknown)}")
        first = [self.trial(each, 0) for each in self.plan.cells]
        first.sort(key=lambda trial: trial.training_flops, reverse=True)
        return first + [self.trial(each.cell, seed) for seed in range(1, self.plan.seeds) for each in first]

    def missing(self, planned: StudyPlan) -> list[T]:
        names = set(planned.trials)
        return [trial for trial in self.trials if trial.name in names and trial.read().status != "done"]

    def results(self) -> dict[str, Any]:
        """Return the outcome of each trial by name, cell by cell."""
        trials = {trial.name: trial for trial in self.trials}
        return {each: trials[each].read() for each in self.plan.trials}

    def done(self) -> list[Any]:
        """Return the outcomes of finished trials."""
        return [each for each in self.results().values() if each.status == "done"]

    def resolved(self, recipe: str | Recipe, seed: int, *settings: str) -> Recipe:
        """Return a recipe with the data and the settings of the plan."""
        options = {"data.source": self.plan.data, "train.seed": seed}
        found = registry.resolve(recipe, options=options, settings=(*settings, *self.plan.settings))
        return with_absolute_paths(found.recipe)

    def probe(self, default: ProbeMethod) -> ProbeMethod:
        return default if self.plan.probe is None else probe_method(self.plan.probe)

    def facts(self, **more: str) -> dict[str, str]:
        """Return the scale, the data, `more` facts, and the environments of finished trials."""
        data = self.trials[0].recipe.data
        facts = {"scale": self.plan.scale, "images": f"{data.source}, {data.rows} × {data.cols}"}
        if self.plan.settings:
            facts["settings"] = " ".join(self.plan.settings)
        facts |= {**more, "seeds": f"{self.plan.seeds}"}
        done = [each.environment for each in self.done()]
        for name in dict.fromkeys(name for each in done for name in each):
            facts[name] = "; ".join(dict.fromkeys(str(each.get(name, "unknown")) for each in done))
        return facts


S = TypeVar("S", bound=Study[Any])


def run_study(kind: type[S], folder: Path, planned: StudyPlan, *, jobs: int | None, device: DeviceLike) -> S:
    """Run the trials of a plan that are not done, `jobs` at a time. Interrupted if asked to stop."""
    study = kind.from_plan(folder, planned)
    slots = slots_on(device, kind.jobs or jobs)
    if planned.data is not None or study.missing(planned):
        study.require_images()
    with kind.create(folder, planned) as study:
        trials, numbers = study.missing(planned), count(1)

        def job_ended(trial: StudyTrial, reason: str) -> None:
            if reason or trial.read().status == "not run":
                trial.fail(reason or "ended without a result")
            announce(f"{trial.name}: {trial.read().text}")
            show(next(numbers))

        submit = in_processes(run_trial, slots, [kind.__module__])
        with stop_requested() as request, track("trials", len(trials)) as show:
            run_all(trials, submit, len(slots), ended=job_ended, stop=lambda: request.signal is not None)
    if request.signal is not None:
        text = f"stopped and saved: {folder}; the same command resumes"
        raise Interrupted(text, kind.result(facts={}, trials=study.results(), warnings=(text,)))
    return study
