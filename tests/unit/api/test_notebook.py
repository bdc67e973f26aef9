"""Results below a cell: pictures as PNG, tables as HTML, and grids of images."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import isopix
from isopix.core.table import Table

CPU: dict[str, Any] = {"device": "cpu"}


class Cells(HTMLParser):
    """The texts of a table, line by line."""

    def __init__(self, html: str):
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in ("tr", "caption"):
            self.rows.append([])

    def handle_data(self, data: str) -> None:
        self.rows[-1].append(data)


def test_tables_have_the_numbers_of_the_results(pristine: Path) -> None:
    probed = isopix.probe(isopix.load(pristine / "ar", **CPU), data="digits", limit=60, method="ridge")
    rows = Cells(probed._repr_html_()).rows
    assert ["majority class", f"{probed.baseline_accuracies['majority class']:.1%}"] in rows
    assert any(
        f"{score.test_accuracy:.1%}" in cell
        for score in probed.network.layers
        for row in rows
        for cell in row
    )


def test_values_are_escaped() -> None:
    assert Cells(Table("a <b>", ["<i>"], [["<script>"]]).html()).rows == [
        ["a <b>"],
        ["<i>"],
        ["<script>"],
    ]
    assert "<script>" not in Table("", ["x"], [["<script>"]]).html()
