"""Study: a folder of many networks that differ in one thing at a time; whatever is missing can be made."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from isopix.core.config import from_dict
from isopix.data.dataset import load as load_images
from isopix.recipes import registry
from isopix.recipes.cost import of_recipe
from isopix.recipes.isotropic import SCALES, Kind
from isopix.runs.pretrain import require_validation, with_absolute_paths
from isopix.storage.atomic import read_json, write_json
from isopix.storage.lock import LOCK, sole_writer
from isopix.storage.provenance import record
from isopix.studies.inductive_bias.trials import Cell
from isopix.studies.trial import Outcome, Task
from isopix.train.lr_search import lr_grid

FILE = "study.json"
SMALLEST = 0.0001  # the last rate that is tried where larger ones diverge


@dataclass(frozen=True)
class Plan:
    """What is studied: cells of a scale, over seeds 0, 1 and so on, on which images, with which settings
    changed (words as `path=value`).
    """

    scale: str
    cells: tuple[Kind, ...]
    seeds: int
    data: str | None
    settings: tuple[str, ...] = ()

    def joined(self, other: "Plan") -> "Plan":
        """Both plans in one. Raises ValueError unless they differ in cells and seeds alone."""
        for name in ("scale", "data", "settings"):
            then, now = getattr(self, name), getattr(other, name)
            if then != now:
                raise ValueError(f"the study has {name} {_told(then)}, and {_told(now)} is asked for")
        both = {*self.cells, *other.cells}
        cells = tuple(kind for kind in SCALES[self.scale].cells if kind in both)
        return Plan(self.scale, cells, max(self.seeds, other.seeds), self.data, self.settings)


def plan(
    scale: str,
    *,
    data: str | None = None,
    pattern: str = "*",
    seeds: int | None = None,
    settings: Sequence[str] = (),
) -> Plan:
    """The cells of a scale whose names, as `conv-pix2vec-3`, are of the pattern; its own number of seeds if
    none is given. Raises ValueError for what is not there.
    """
    if scale not in SCALES:
        raise ValueError(f"unknown scale '{scale}'; scales: {', '.join(SCALES)}")
    chosen = SCALES[scale]
    patterns = pattern.split(",")
    cells = tuple(kind for kind in chosen.cells if any(fnmatchcase(name(kind), each) for each in patterns))
    if not cells:
        known = ", ".join(map(name, chosen.cells))
        raise ValueError(f"no cell of scale '{scale}' is named like '{pattern}'; cells: {known}")
    count = chosen.seeds if seeds is None else seeds
    if count < 1:
        raise ValueError(f"seeds is {count}; allowed: 1 or more")
    where = None if data is None else str(Path(data).resolve()) if Path(data).exists() else data
    return Plan(scale, cells, count, where, tuple(settings))


def name(kind: Kind) -> str:
    """`conv-pix2vec-3`."""
    return "-".join(map(str, kind))


class Study:
    """A study in its folder; `create` or `open` makes sure that it is one."""

    def __init__(self, path: Path, planned: Plan):
        self.path, self.plan = path, planned

    @classmethod
    def of(cls, path: Path, planned: Plan) -> "Study":
        """The study of that plan, new or grown by the plan's cells and seeds; nothing is written. Raises
        ValueError for a folder of something else, of a study with other settings, and for settings that
        cannot be.
        """
        if (path / FILE).is_file():
            whole = cls.open(path).plan.joined(planned)
        else:
            if path.exists() and (not path.is_dir() or any(each.name != LOCK for each in path.iterdir())):
                raise ValueError(f"{path} is no study, and not empty; choose another --out")
            whole = planned
        study = cls(path.resolve(), whole)
        study.tasks()
        return study

    @classmethod
    @contextmanager
    def create(cls, path: Path, planned: Plan) -> Iterator["Study"]:
        """The same, written down, for the one process that works on it. Raises ValueError as `of` does, and
        while another process does so.
        """
        cls.of(path, planned)
        path.mkdir(parents=True, exist_ok=True)
        with sole_writer(path, "study"):
            study = cls.of(path, planned)  # what another has written since counts
            for folder in (study.path / "cells", study.path / "outcomes"):
                folder.mkdir(exist_ok=True)
            write_json(study.path / FILE, record({"kind": "study", **asdict(study.plan)}))
            yield study

    @classmethod
    def open(cls, path: Path) -> "Study":
        """The study that is there. Raises ValueError if there is none."""
        if not (path / FILE).is_file():
            raise ValueError(f"{path} holds no study; isopix study makes one")
        values = read_json(path / FILE)
        try:
            planned = from_dict(Plan, {key: values[key] for key in Plan.__dataclass_fields__})
        except KeyError as missing:
            raise ValueError(f"{path / FILE} has no {missing}") from None
        return cls(path.resolve(), planned)

    def require_images(self) -> None:
        """Raises ValueError unless its images are there, with classes, and some to choose by: what every
        cell would find out for itself, some of it after its training. What is prepared once is ready for all.
        """
        recipe = self._task(self.plan.cells[0], 0).recipe
        data = load_images(recipe.data, seed=recipe.train.seed)
        data.require_labels("study")
        require_validation(recipe, data, "a layer")

    def tasks(self) -> list[Task]:
        """Every cell, all of one seed before the next, the costliest first, so that none is left alone at
        the end. Raises ValueError for settings that cannot be.
        """
        return [
            self._task(kind, seed)
            for seed in range(self.plan.seeds)
            for kind in sorted(self.plan.cells, key=self._cost, reverse=True)
        ]

    def missing(self, planned: Plan) -> list[Task]:
        """Those of the plan's cells that are not done; a failed one is not."""
        names = {_named(kind, seed) for kind in planned.cells for seed in range(planned.seeds)}
        return [task for task in self.tasks() if task.name in names and task.read().state != "done"]

    def outcomes(self) -> dict[str, Outcome]:
        """What is known of every cell, by its name, in the order of the plan."""
        tasks = {task.name: task for task in self.tasks()}
        names = [_named(kind, seed) for kind in self.plan.cells for seed in range(self.plan.seeds)]
        return {each: tasks[each].read() for each in names}

    def _task(self, kind: Kind, seed: int) -> Task:
        scale, called = SCALES[self.plan.scale], _named(kind, seed)
        resolved = registry.resolve(
            scale.family + name(kind),
            options={"data.source": self.plan.data, "seed": seed},
            assignments=self.plan.settings,
        )
        recipe = resolved.recipe
        return Task(
            name=called,
            kind=kind,
            recipe=with_absolute_paths(recipe),
            rates=lr_grid(recipe.train.optimizer.lr, min(SMALLEST, recipe.train.optimizer.lr)),
            protocol=scale.protocol,
            probed=scale.probed,
            folder=self.path / "cells" / called,
            outcome=self.path / "outcomes" / f"{called}.json",
        )

    def _cost(self, kind: Kind) -> int:
        return cost(self._task(kind, 0))


def cost(task: Task) -> int:
    """FLOPs of a cell's training: what its time is roughly proportional to."""
    recipe = task.recipe
    return of_recipe(recipe).training_flops * recipe.train.steps * recipe.train.batch_size


def cells(outcomes: Mapping[str, Outcome]) -> list[Cell]:
    """The numbers of all that are done."""
    return [outcome.cell for outcome in outcomes.values() if outcome.cell is not None]


def _named(kind: Kind, seed: int) -> str:
    return f"{name(kind)}-seed-{seed}"


def _told(value: Any) -> str:
    return " ".join(value) or "none" if isinstance(value, tuple) else str(value)
