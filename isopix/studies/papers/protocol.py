"""PaperProtocol: the experiment behind one table or figure, and the registry of all of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from isopix.plots.style import Figure
from isopix.recipes.published import PublishedRow, Value
from isopix.studies.papers.readers import Read, Record
from isopix.studies.papers.setup import Setup
from isopix.studies.papers.trials import Pretrain, ProtocolTrial


class Cell(NamedTuple):
    """A number of a table: the trial whose record has it, and how it is read."""

    trial: ProtocolTrial
    read: Read


class MeasuredRow(NamedTuple):
    """A row of a table: numbers by column, or text that needs no measurement; `network` is the model."""

    method: str
    data: str
    network: Pretrain
    cells: Mapping[str, Cell | str]

    def values(self, records: "Records") -> dict[str, Value | str | None]:
        """Return the value of each cell; None where the trial is not done or has no such number."""
        return {column: _value(cell, records) for column, cell in self.cells.items()}

    def trials(self) -> Iterator[ProtocolTrial]:
        """Iterate over the trials of the cells, and those that they need, in an order to run them in."""
        for cell in self.cells.values():
            if isinstance(cell, Cell):
                yield from _in_order(cell.trial)


def _value(cell: Cell | str, records: "Records") -> Value | str | None:
    if isinstance(cell, str):
        return cell
    return cell.read(records[cell.trial.name]) if cell.trial.name in records else None


Rows = Callable[[Setup], Sequence[MeasuredRow]]
Records = Mapping[str, Record]  # of the trials that are done, by name
# Returns a figure and its caption; None if no record is there.
Draw = Callable[[Sequence[MeasuredRow], Records], tuple[Figure, str] | None]


class PaperProtocol(NamedTuple):
    """A table or figure of a paper: its columns with their units, what was published, how the rows are
    measured, and the figure if it is one. `note` says what the paper does not state and was chosen here.
    """

    name: str
    title: str
    units: Mapping[str, str]
    published: Sequence[PublishedRow]
    note: str
    rows: Rows
    draw: Draw | None = None

    def trials(self, setup: Setup) -> list[ProtocolTrial]:
        """Return all trials, each once, in an order to run them in.

        Raises ValueError for an existing run of a network that the protocol does not have.
        """
        found = {trial.name: trial for row in self.rows(setup) for trial in row.trials()}
        known = [each.name for each in found.values() if not each.needs]
        for name in setup.pretrained:
            if name not in known:
                raise ValueError(f"pretrained names network '{name}'; this protocol has: {', '.join(known)}")
        return list(found.values())


PROTOCOLS: dict[str, PaperProtocol] = {}


def protocol(
    name: str,
    title: str,
    *,
    units: Mapping[str, str],
    published: Sequence[PublishedRow],
    note: str = "",
    draw: Draw | None = None,
) -> Callable[[Rows], Rows]:
    """Return a decorator that registers a function from setup to rows as the protocol `name`.

    Raises ValueError for a name that is taken.
    """

    def decorate(rows: Rows) -> Rows:
        if name in PROTOCOLS:
            raise ValueError(f"protocol '{name}' is already registered")
        PROTOCOLS[name] = PaperProtocol(name, title, units, published, note, rows, draw)
        return rows

    return decorate


def _in_order(trial: ProtocolTrial) -> Iterator[ProtocolTrial]:
    for needed in trial.needs:
        yield from _in_order(needed)
    yield trial
