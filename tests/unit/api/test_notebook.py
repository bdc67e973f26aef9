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
    model = isopix.load(pristine / "ar", **CPU)
    probed = isopix.probe(model, data="digits", limit=60, method="ridge")
    _, _, *rows = Cells(probed._repr_html_()).rows
    assert len(rows) == model.depth + 1 + len(probed.baselines)
    low, high = probed.best.interval
    measured = f"{probed.accuracy:.1%} ({100 * low:.1f} to {100 * high:.1f})"
    assert [f"layer {probed.best.layer} *", measured] in rows
    assert dict(rows)["raw pixels"].startswith(f"{probed.baselines['raw pixels']:.1%} (")
    assert rows[-1] == ["majority class", f"{probed.baselines['majority class']:.1%}"]
    caption, header, _, *lines = repr(probed).splitlines()
    count = probed.report.measurement.images
    assert caption.startswith(f"Linear probe, step 4, {count} of 180 test images of digits; ")
    assert header.split() == ["features", "test", "accuracy", "(95", "%", "CI)"]
    assert len(lines) == model.depth + 1 + len(probed.baselines)
    few = isopix.low_data(model, data="digits", labels=[1, 2], subsets=2, limit=60)
    [caption], header, *rows = Cells(few._repr_html_()).rows
    assert caption.endswith("test images of digits: mean ± std over 2 random subsets of the labels")
    assert header == ["labels per class", *few.results]
    assert [row[0] for row in rows] == ["1", "2"]
    assert rows[1][1:] == [f"{each[1].mean:.1%} ± {each[1].std:.1%}" for each in few.results.values()]


def test_values_are_escaped() -> None:
    assert Cells(Table("a <b>", ["<i>"], [["<script>"]]).html()).rows == [
        ["a <b>"],
        ["<i>"],
        ["<script>"],
    ]
    assert "<script>" not in Table("", ["x"], [["<script>"]]).html()
