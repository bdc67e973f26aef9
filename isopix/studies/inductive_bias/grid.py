"""The grid of the study: which networks are trained at which scale, and the folder of their trials."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple

from isopix.core.config import from_dict
from isopix.core.text import naming
from isopix.data.dataset import load_dataset
from isopix.probing.methods import LbfgsProbe, RidgeProbe
from isopix.probing.probe import ProbeMethod, probe_method
from isopix.recipes import registry
from isopix.recipes.cost import training_flops
from isopix.recipes.isotropic import CELLS, ENCODINGS
from isopix.runs.pretrain import require_validation
from isopix.runs.series import lr_grid
from isopix.runs.start import with_absolute_paths
from isopix.storage.atomic import LOCK_FILE, exclusive_lock, read_json, write_json
from isopix.storage.provenance import with_provenance
from isopix.storage.run_folder import require_new
from isopix.studies.inductive_bias.results import Architecture, TrialResult, network_name, trial_name
from isopix.studies.inductive_bias.trial import TrialSpec

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
THREE_BLOCKS = ("conv", "mixer", "transformer-1")


def _networks(*depths: int) -> tuple[Architecture, ...]:
    return tuple(product(THREE_BLOCKS, ENCODINGS, depths))


_RIDGE = RidgeProbe(l2_grid=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0))  # closed form
_IMAGES = {"train": 10_000, "validation": 2000, "test": 10_000}
_ALL_IMAGES = {"train": 50_000, "validation": 50_000, "test": 50_000}
SCALES = {
    "tiny": Scale("isotropic.translated_digits-", _networks(1, 3), 5, _RIDGE, _IMAGES, effect=20.0),
    "small": Scale("isotropic.small-", _networks(1, 3, 6), 5, _RIDGE, _IMAGES, effect=5.0),
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
    data: str | Path | None = None,
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
    where = None if data is None else str(Path(data).resolve() if Path(data).exists() else data)
    return StudyPlan(scale, found, seeds or chosen.seeds, where, tuple(settings), probe)


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
        study = cls(path, planned)
        _ = study.specs  # invalid settings are refused before anything is written
        return study

    @classmethod
    @contextmanager
    def create(cls, path: Path, planned: StudyPlan) -> Iterator["Study"]:
        """Write the plan and yield the study, for one process at a time."""
        path.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(path, "study"):
            study = cls.from_plan(path, planned)  # after another process, which may have extended it
            for folder in ("trials", "results"):
                (study.path / folder).mkdir(exist_ok=True)
            write_json(study.path / FILE, with_provenance({"kind": "study", **asdict(study.plan)}))
            yield study

    @classmethod
    def open(cls, path: Path) -> "Study":
        if not (path / FILE).is_file():
            raise ValueError(f"{path} is not a study; isopix study makes one")
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
        data = load_dataset(recipe.data)
        data.require_labels("study")
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
