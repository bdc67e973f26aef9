"""Rows of published tables, to be shown next to measured ones."""

from collections.abc import Mapping
from typing import NamedTuple


class Value(NamedTuple):
    """A number in the unit of its column, and its standard deviation over subsets, if there is one."""

    number: float
    std: float | None = None


class PublishedRow(NamedTuple):
    """The results of one method on one dataset, by column; `source` is where a number that is not in the
    table itself stands, or follows from.
    """

    method: str
    data: str
    cells: Mapping[str, Value | str]
    source: str = ""


def single_column(column: str, rows: Mapping[str, Mapping[str, float]]) -> tuple[PublishedRow, ...]:
    """Return the rows of a table with one column of numbers, given by dataset and method."""
    return tuple(
        PublishedRow(method, data, {column: Value(number)})
        for data, methods in rows.items()
        for method, number in methods.items()
    )
