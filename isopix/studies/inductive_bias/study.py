"""The study: which networks are trained at which scale, in which folder, and the results of their trials."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import count, product
from pathlib import Path
from typing import NamedTuple

from isopix.core.config import from_dict
from isopix.core.device import DeviceLike
from isopix.core.overrides import parse
from isopix.core.progress import announce, track
from isopix.core.signals import Interrupted, stop_requested
from isopix.core.slurm import in_slurm
from isopix.core.text import naming
from isopix.data.load import load_dataset
from isopix.probing.methods import LbfgsProbe, RidgeProbe
from isopix.probing.probe import ProbeMethod, probe_method
from isopix.recipes import registry
from isopix.recipes.cost import training_flops
from isopix.recipes.isotropic import CELLS, ENCODINGS
from isopix.reporting.section import write_page
from isopix.runs.pretrain import require_validation
from isopix.runs.series import lr_grid
from isopix.runs.start import with_absolute_paths
from isopix.storage.atomic import LOCK_FILE, exclusive_lock, read_json, write_json
from isopix.storage.provenance import with_provenance
from isopix.storage.run_folder import own_folder, require_new
from isopix.studies.executor import Submit, in_processes, run_all, slots_on
from isopix.studies.inductive_bias.claims import evaluate_trials
from isopix.studies.inductive_bias.contrasts import MAIN_BLOCKS
from isopix.studies.inductive_bias.figures import read_examples, study_figures
from isopix.studies.inductive_bias.results import (
    Architecture,
    StudyResult,
    TrialResult,
    network_name,
    trial_name,
)
from isopix.studies.inductive_bias.trial import TrialSpec, run_trial

FILE = "study.json"
MIN_LR = 0.0001  # the last learning rate that is tried where larger ones diverge


class Scale(NamedTuple):
    """A size of the study; `effect` is the difference, in points, that it is planned to detect."""

    prefix: str
    architectures: tuple[Architecture, ...]
    seeds: int
    probe: ProbeMethod
    probe_images: dict[str, int]
    effect: float

    @property
    def effects(self) -> dict[str, float]:
        return {"points": self.effect, "points per doubling": self.effect / 2, **EFFECTS}


# The differences that a study is planned to detect, apart from those of accuracy; "" is of correlations.
EFFECTS = {"nats": 0.2, "nats per doubling": 0.1, "": 0.3, "% of range": 2.0, "%": 10.0}
_TINY, _SMALL = (tuple(product(MAIN_BLOCKS, ENCODINGS, depths)) for depths in ((1, 3), (1, 3, 6)))
_RIDGE = RidgeProbe(l2_grid=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0))  # closed form
_IMAGES = {"train": 10_000, "validation": 2000, "test": 10_000}
_ALL_IMAGES = {"train": 50_000, "validation": 50_000, "test": 50_000}
SCALES = {
    "tiny": Scale("isotropic.translated_digits-", _TINY, 5, _RIDGE, _IMAGES, effect=20.0),
    "small": Scale("isotropic.small-", _SMALL, 5, _RIDGE, _IMAGES, effect=5.0),
    "paper": Scale("isotropic.", tuple(CELLS), 3, LbfgsProbe(), _ALL_IMAGES, effect=5.0),
}


@dataclass(frozen=True)
class StudyPlan:
    """Architectures of a scale, over seeds 0, 1, ..., with overrides (`path=value`) and any other probe."""

    scale: str
    architectures: tuple[Architecture, ...]
    seeds: int
    data: str | None
    settings: tuple[str, ...] = ()
    probe: str | None = None

    def merged(self, other: "StudyPlan") -> "StudyPlan":
        """Return both plans in one, with the other's images, which may lie elsewhere than before."""
        for name in ("scale", "settings", "probe"):
            old, new = getattr(self, name), getattr(other, name)
            if old != new:
                raise ValueError(f"the study has {name} {old or 'none'}, not {new or 'none'}")
        both = {*self.architectures, *other.architectures}
        architectures = tuple(each for each in SCALES[self.scale].architectures if each in both)
        return replace(other, architectures=architectures, seeds=max(self.seeds, other.seeds))

    @property
    def trials(self) -> list[str]:
        return [trial_name(each, seed) for each in self.architectures for seed in range(self.seeds)]


def plan_study(
    scale: str,
    *,
    data: str | None = None,
    pattern: str = "*",
    seeds: int | None = None,
    settings: Sequence[str] = (),
    probe: str | None = None,
) -> StudyPlan:
    """Return the architectures whose names, as `conv-pix2vec-3`, match a comma-separated pattern."""
    chosen, patterns = SCALES[scale], pattern.split(",")
    found = tuple(
        each for each in chosen.architectures if any(fnmatchcase(network_name(each), one) for one in patterns)
    )
    if not found:
        known = ", ".join(map(network_name, chosen.architectures))
        raise ValueError(f"no trial of scale '{scale}' matches '{pattern}'; trials: {known}")
    if probe is not None:
        probe_method(probe)
    return StudyPlan(scale, found, seeds or chosen.seeds, data, tuple(settings), probe)


class Study:
    def __init__(self, path: Path, planned: StudyPlan):
        self.path, self.plan = path.resolve(), planned

    @classmethod
    def from_plan(cls, path: Path, planned: StudyPlan) -> "Study":
        """Return the study of a plan, new or extended by its architectures and seeds; nothing is written."""
        if (path / FILE).is_file():
            planned = cls.open(path).plan.merged(planned)
        else:
            require_new(path, [LOCK_FILE])
        return cls(path, planned)

    @classmethod
    @contextmanager
    def create(cls, path: Path, planned: StudyPlan) -> Iterator["Study"]:
        """Write the plan and yield the study, for one process at a time."""
        path.mkdir(parents=True, exist_ok=True)
        own_folder(path)
        with exclusive_lock(path, "study"):
            study = cls.from_plan(path, planned)  # after another process, which may have extended it
            (study.path / "results").mkdir(exist_ok=True)
            write_json(study.path / FILE, with_provenance({"kind": "study", **asdict(study.plan)}))
            yield study

    @classmethod
    def open(cls, path: Path) -> "Study":
        if not (path / FILE).is_file():
            raise ValueError(f"{path} is not a study; isopix reproduce isotropic.study makes one")
        values = read_json(path / FILE)
        with naming(str(path / FILE)):
            own = {name: values[name] for name in StudyPlan.__dataclass_fields__ if name in values}
            return cls(path, from_dict(StudyPlan, own))

    @classmethod
    def scale_in(cls, path: Path) -> str:
        """Return the scale of the study in a folder, `tiny` if there is none."""
        return cls.open(path).plan.scale if (path / FILE).is_file() else "tiny"

    def require_images(self) -> None:
        """Raise ValueError before training for missing images, or others than those of finished trials."""
        recipe = self.specs[0].recipe
        data = load_dataset(recipe.data).labeled("study")
        require_validation(recipe, data, "a layer")
        for name, result in self.results().items():
            if result.environment.get("data", data.fingerprint) != data.fingerprint:
                raise ValueError(
                    f"{recipe.data.source} has other images than those of {name}, which is done; give the "
                    "same images as before, or another --out"
                )

    @cached_property
    def specs(self) -> list[TrialSpec]:
        """Every trial, seed by seed, the most expensive first so that none runs alone at the end."""
        first = [self._spec(each, 0) for each in self.plan.architectures]
        first.sort(key=lambda spec: training_flops(spec.recipe), reverse=True)
        later = [self._spec(each.architecture, seed) for seed in range(1, self.plan.seeds) for each in first]
        return first + later

    def missing(self, planned: StudyPlan) -> list[TrialSpec]:
        names = set(planned.trials)
        return [spec for spec in self.specs if spec.name in names and spec.read().status != "done"]

    def results(self) -> dict[str, TrialResult]:
        specs = {spec.name: spec for spec in self.specs}
        return {each: specs[each].read() for each in self.plan.trials}

    def _spec(self, architecture: Architecture, seed: int) -> TrialSpec:
        scale = SCALES[self.plan.scale]
        recipe = registry.resolve(
            scale.prefix + network_name(architecture),
            options={"data.source": self.plan.data, "train.seed": seed},
            settings=self.plan.settings,
        ).recipe
        return TrialSpec(
            self.path,
            architecture,
            with_absolute_paths(recipe),
            lr_grid(recipe.train.optimizer.lr, min(MIN_LR, recipe.train.optimizer.lr)),
            scale.probe if self.plan.probe is None else probe_method(self.plan.probe),
            scale.probe_images,
        )


def run_study(
    folder: Path, planned: StudyPlan, *, jobs: int | None, device: DeviceLike, slurm: Sequence[str]
) -> Study:
    """Run the trials of a plan that are not done, `jobs` at a time. Interrupted if asked to stop."""
    study = Study.from_plan(folder, planned)
    missing = len(study.missing(planned))
    submit, size = _executor(study.path, missing, jobs=jobs, device=device, slurm=slurm)
    if missing or planned.data is not None:
        study.require_images()
    with Study.create(folder, planned) as study:
        specs, numbers = study.missing(planned), count(1)

        def job_ended(spec: TrialSpec, reason: str) -> None:
            if reason or spec.read().status == "not run":
                spec.fail(reason or "ended without a result")
            announce(f"{spec.name}: {spec.read().text}")
            show(next(numbers))

        with stop_requested() as request, track("trials", len(specs)) as show:
            run_all(specs, submit, size, ended=job_ended, stop=lambda: request.signal is not None)
    if request.signal is not None:
        text = f"stopped and saved: {folder}; the same command resumes"
        raise Interrupted(text, StudyResult(facts={}, claims={}, trials=study.results(), warnings=(text,)))
    return study


def _executor(
    folder: Path, count: int, *, jobs: int | None, device: DeviceLike, slurm: Sequence[str]
) -> tuple[Submit[TrialSpec], int]:
    if not slurm:
        slots = slots_on(device, jobs)
        return in_processes(run_trial, slots, ["isopix.studies.inductive_bias.trial"]), len(slots)
    given = parse(slurm)
    for name in ("nodes", "gpus_per_node", "tasks_per_node", "ntasks_per_node"):
        if given.get(name, 1) not in (0, 1):
            raise ValueError(f"{name} is {given[name]}; a trial is one process with one GPU: allowed: 1")
    return in_slurm(run_trial, folder / "slurm", given), jobs or max(1, count)


def write_up(study: Study) -> StudyResult:
    """Test the claims, draw the figures and write the page, from the trials that are done."""
    results = study.results()
    done = {name: result for name, result in results.items() if result.status == "done"}
    _check_same_images(done)
    claims = evaluate_trials(list(done.values()), SCALES[study.plan.scale].effects)
    facts = _facts(study, list(done.values()))
    examples = read_examples([spec for spec in study.specs if spec.name in done])
    result = StudyResult(facts=facts, claims=claims, trials=results).saved(study.path / "report.html")
    write_page(
        study.path / "report.html",
        result,
        list(study_figures([each.measured() for each in done.values()], examples, claims)),
        title="Inductive biases of small isotropic networks",
        headline=f"{len(done)} of {len(results)} networks",
        lead="; ".join(result.verdict_counts(pool) for pool in claims),
    )
    return result


def _check_same_images(done: Mapping[str, TrialResult]) -> None:
    images = {name: (each.environment.get("data"), each.test_groups) for name, each in done.items()}
    for name, own in images.items():
        first = next(iter(images))
        if own != images[first]:
            raise ValueError(f"{name} and {first} are of other images; take the results of one of them away")


def _facts(study: Study, done: Sequence[TrialResult]) -> dict[str, str]:
    first = study.specs[0]
    data, train = first.recipe.data, first.recipe.train
    facts = {
        "scale": study.plan.scale,
        "images": f"{data.source}, {data.rows} × {data.cols}",
        "width": f"{first.recipe.model.width}",
        "training": f"{train.steps:,} steps of {train.batch_size}",
        "probe": first.probe.label(),
        "seeds": f"{study.plan.seeds}",
    }
    for name in dict.fromkeys(name for each in done for name in each.environment):
        facts[name] = "; ".join(dict.fromkeys(str(each.environment.get(name, "unknown")) for each in done))
    return facts
