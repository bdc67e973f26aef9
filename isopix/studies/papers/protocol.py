"""PaperProtocol: the experiment behind a table or figure; Setup: the scale and the data at which it runs."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal, NamedTuple, TypeVar

from isopix.core.registry import import_modules
from isopix.core.text import did_you_mean, expand_home
from isopix.plots.style import Figure
from isopix.recipes import registry
from isopix.recipes.published import TableRow, Value
from isopix.recipes.recipe import Recipe
from isopix.runs.load import saved_recipe
from isopix.runs.start import with_absolute_paths
from isopix.studies.inductive_bias.study import BiasStudy
from isopix.studies.papers.trials import Pretrain, ProtocolTrial
from isopix.studies.scaling.baselines import BaselinesStudy
from isopix.studies.scaling.speed import SpeedStudy
from isopix.studies.scaling.study import ScalingStudy

T = TypeVar("T")
StudyKind = type[BiasStudy] | type[ScalingStudy] | type[BaselinesStudy] | type[SpeedStudy]
_KINDS: tuple[StudyKind, ...] = (BiasStudy, ScalingStudy, BaselinesStudy, SpeedStudy)
STUDIES: Mapping[str, StudyKind] = {each.name: each for each in _KINDS}
ProtocolScale = Literal["tiny", "small", "paper"]
SCALE_DATA = {"tiny": "translated-digits", "small": "cifar10"}  # where the protocol's own are too large
# How the images of a dataset are augmented in fine-tuning, where that is not the default of the recipe.
AUGMENT = {
    "imagenet-1k": ("data.augment=scale_crop",),
    "translated-digits": ("data.augment=none",),
    "digits": ("data.augment=none",),
}


@dataclass(frozen=True)
class Setup:
    """A scale, data in place of the protocol's, changed settings, and existing runs by their network."""

    scale: ProtocolScale = "tiny"
    data: str | None = None
    pretrain_data: str | None = None
    settings: tuple[str, ...] = ()
    pretrained: Mapping[str, str] = field(default_factory=dict)

    def choose(self, *, tiny: T, small: T, paper: T) -> T:
        return {"tiny": tiny, "small": small, "paper": paper}[self.scale]

    def datasets(self, *published: str) -> tuple[str, ...]:
        replaced = self.data or SCALE_DATA.get(self.scale)
        return (replaced,) if replaced else published

    def network(self, name: str, recipe: Recipe) -> Pretrain:
        """Return the network of this name, pre-trained by the recipe, or an existing run."""
        if name in self.pretrained:
            given = Path(self.pretrained[name])
            return Pretrain(name, saved_recipe(given), given)
        return Pretrain(name, self._resolved(recipe))

    def from_scratch(self, name: str, recipe: Recipe) -> Pretrain:
        return Pretrain(name, self._resolved(recipe), from_scratch=True)

    def probe_data(self, network: Pretrain, data: str) -> str | None:
        """Return None for the data of pre-training, so that its other settings apply too."""
        return None if network.recipe.data.source in (data, absolute(data)) else data

    def finetune_settings(self, data: str, *settings: str) -> tuple[str, ...]:
        return (f"data.source={json.dumps(data)}", "train.evaluators=[]", *AUGMENT.get(data, ()), *settings)

    def _resolved(self, recipe: Recipe) -> Recipe:
        labeled = None if self.scale == "paper" else self.data or SCALE_DATA[self.scale]
        source = {"data.source": self.pretrain_data or labeled}
        found = registry.resolve(recipe, options=source, settings=self.settings)
        return with_absolute_paths(found.recipe)


def slug(data: str) -> str:
    """Return the part of a run folder's name for a dataset by name or path."""
    return data.rstrip("/").rpartition("/")[2].replace(".", "-")


def absolute(data: str | Path | None) -> str | None:
    """Return the absolute path of data that are a file or folder, else their name."""
    return None if data is None else str(Path(data).resolve() if Path(data).exists() else data)


def existing_runs(words: Sequence[str]) -> dict[str, str]:
    """Return the absolute paths of `NAME=RUN` by name. Raises ValueError for others."""
    pairs = {name: path for name, _, path in (word.partition("=") for word in words)}
    if missing := next((word for word in words if "=" not in word), None):
        raise ValueError(f"pretrained is '{missing}'; write NAME=RUN, as in igpt-l=runs/igpt-l")
    return {name: str(Path(expand_home(path)).resolve()) for name, path in pairs.items()}


Record = Any  # the result of a trial, or the log of a network
Records = Mapping[str, Record]  # of the trials that are done, by name
Read = Callable[[Record], Value | None]  # reads a number of a record; None: it has no such number


class Cell(NamedTuple):
    """A number of a table: the trial whose record has it, and how it is read."""

    trial: ProtocolTrial
    read: Read

    def value(self, records: Records) -> Value | None:
        return self.read(records[self.trial.name]) if self.trial.name in records else None


class MeasuredRow(NamedTuple):
    """A row of a table: numbers by column, or text that needs no measurement; `network` is the model."""

    method: str
    data: str
    network: Pretrain
    cells: Mapping[str, Cell | str]

    def values(self, records: Records) -> dict[str, Value | None]:
        return {
            column: Value(cell) if isinstance(cell, str) else cell.value(records)
            for column, cell in self.cells.items()
        }

    def trials(self) -> Iterator[ProtocolTrial]:
        """Yield the trials of the cells, each after those that it needs."""
        for cell in self.cells.values():
            if isinstance(cell, Cell):
                yield from (*cell.trial.needs, cell.trial)


def cells_of(trial: ProtocolTrial, reads: Mapping[str, Read]) -> dict[str, Cell | str]:
    """Return cells, by column, that are read from the record of one trial."""
    return {column: Cell(trial, read) for column, read in reads.items()}


def in_percent(accuracy: Callable[[Any], float | None]) -> Read:
    """Return a reader of the accuracy of a result, in per cent."""

    def read(record: Record) -> Value | None:
        found = accuracy(record)
        return None if found is None else Value(100 * found)

    return read


TUNED = in_percent(lambda evaluation: evaluation.metrics.accuracy)  # of a fine-tuned network


def low_data_error(method: str, labels_per_class: int) -> Read:
    """Return a reader of the test error with few labels; it finds None if that number was not tried."""

    def read(record: Record) -> Value | None:
        for each in record.results.get(method, ()):
            if each.labels_per_class == labels_per_class:
                errors = [100 * error for error in each.errors]
                return Value(mean(errors), stdev(errors) if len(errors) > 1 else 0.0)
        return None

    return read


Rows = Callable[[Setup], Iterable[MeasuredRow]]
# Returns a figure and its caption; None if no record is there.
Draw = Callable[[Sequence[MeasuredRow], Records], tuple[Figure, str] | None]


class PaperProtocol(NamedTuple):
    """A table or figure of a paper, published and measured; `note` says what was chosen here."""

    name: str
    rows: Rows
    units: Mapping[str, str]
    published: Sequence[TableRow]
    note: str = ""
    draw: Draw | None = None

    @property
    def title(self) -> str:
        return (self.rows.__doc__ or "").removesuffix(".")

    def trials(self, setup: Setup) -> list[ProtocolTrial]:
        found = {trial.name: trial for row in self.rows(setup) for trial in row.trials()}
        known = [each.name for each in found.values() if not each.needs]
        for name in setup.pretrained:
            if name not in known:
                raise ValueError(f"pretrained names network '{name}'; this protocol has: {', '.join(known)}")
        return list(found.values())


_PROTOCOLS: dict[str, PaperProtocol] = {}


def protocol(name: str, **fields: Any) -> Callable[[Rows], Rows]:
    """Return a decorator that registers a function, whose docstring is the title, as the protocol `name`.

    `fields` are the other ones of `PaperProtocol`.
    """

    def decorate(rows: Rows) -> Rows:
        _PROTOCOLS[name] = PaperProtocol(name, rows, **fields)
        return rows

    return decorate


def protocols() -> dict[str, str]:
    """Return the titles of all protocols by name, with the studies."""
    import_modules("isopix.studies.papers")
    tables = {name: each.title for name, each in _PROTOCOLS.items()}
    return {**tables, **{name: (each.__doc__ or "").rstrip(".") for name, each in STUDIES.items()}}


def all_protocols() -> list[PaperProtocol]:
    """Return the protocols of tables and figures."""
    protocols()
    return [*_PROTOCOLS.values()]


def find_protocol(name: str) -> PaperProtocol:
    """Return the protocol of a table or figure. Raises ValueError that lists all for another."""
    known = protocols()
    if name not in known:
        hint = did_you_mean(name, known)
        raise ValueError(f"unknown protocol '{name}'; {hint}protocols: {', '.join(known)}")
    return _PROTOCOLS[name]
