"""PaperProtocol: the experiment behind one table or figure, and the registry of all of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean, stdev
from typing import Any, NamedTuple

from isopix.core.registry import import_modules
from isopix.core.text import did_you_mean
from isopix.plots.style import Figure
from isopix.recipes.published import PublishedRow, Value
from isopix.studies.papers.setup import Setup
from isopix.studies.papers.trials import Pretrain, ProtocolTrial

Record = Mapping[str, Any]
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

    def values(self, records: Records) -> dict[str, Value | str | None]:
        return {
            column: cell if isinstance(cell, str) else cell.value(records)
            for column, cell in self.cells.items()
        }

    def trials(self) -> Iterator[ProtocolTrial]:
        """Iterate over the trials of the cells, and those that they need, in an order to run them in."""
        for cell in self.cells.values():
            if isinstance(cell, Cell):
                yield from (*cell.trial.needs, cell.trial)


def cells_of(trial: ProtocolTrial, reads: Mapping[str, Read]) -> dict[str, Cell | str]:
    """Return cells, by column, that are read from the record of one trial."""
    return {column: Cell(trial, read) for column, read in reads.items()}


def accuracy_at(path: str) -> Read:
    """Return a reader of the accuracy, in per cent, at a path, as `network.best.test_accuracy`."""

    def read(record: Record) -> Value | None:
        found: Any = record
        for name in path.split("."):
            if name == "best":
                found = found["layers"][found["best_index"]]
            else:
                found = found[int(name) if isinstance(found, list) else name]
        return None if found is None else Value(100 * found)

    return read


def low_data_error(method: str, labels_per_class: int) -> Read:
    """Return a reader of the test error with few labels; it finds None if that number was not tried."""

    def read(record: Record) -> Value | None:
        for each in record["results"].get(method, ()):
            if each["labels_per_class"] == labels_per_class:
                errors = [100 * error for error in each["errors"]]
                return Value(mean(errors), stdev(errors) if len(errors) > 1 else 0.0)
        return None

    return read


Rows = Callable[[Setup], Sequence[MeasuredRow]]
# Returns a figure and its caption; None if no record is there.
Draw = Callable[[Sequence[MeasuredRow], Records], tuple[Figure, str] | None]


class PaperProtocol(NamedTuple):
    """A table or figure of a paper, published and measured; `note` says what was chosen here."""

    name: str
    title: str
    units: Mapping[str, str]
    published: Sequence[PublishedRow]
    note: str
    rows: Rows
    draw: Draw | None = None

    def trials(self, setup: Setup) -> list[ProtocolTrial]:
        found = {trial.name: trial for row in self.rows(setup) for trial in row.trials()}
        known = [each.name for each in found.values() if not each.needs]
        for name in setup.pretrained:
            if name not in known:
                raise ValueError(f"pretrained names network '{name}'; this protocol has: {', '.join(known)}")
        return list(found.values())


_PROTOCOLS: dict[str, PaperProtocol] = {}


def protocol(
    name: str,
    title: str,
    *,
    units: Mapping[str, str],
    published: Sequence[PublishedRow],
    note: str = "",
    draw: Draw | None = None,
) -> Callable[[Rows], Rows]:
    """Return a decorator that registers a function from setup to rows as the protocol `name`."""

    def decorate(rows: Rows) -> Rows:
        _PROTOCOLS[name] = PaperProtocol(name, title, units, published, note, rows, draw)
        return rows

    return decorate


def protocols() -> dict[str, PaperProtocol]:
    """Return the protocols of all papers by name."""
    import_modules("isopix.studies.papers")
    return _PROTOCOLS


def find_protocol(name: str) -> PaperProtocol:
    """Return the protocol of a name. Raises ValueError that lists all for another."""
    known = protocols()
    if name not in known:
        hint = did_you_mean(name, known)
        raise ValueError(f"unknown protocol '{name}'; {hint}protocols: {', '.join(known)}")
    return known[name]
