"""Results below a cell: pictures as PNG, tables as HTML, and grids of images."""

import io
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import isopix
from isopix.api.notebook import Table
from tests.unit.data.refusal import refusal

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


def test_results_are_the_pictures_that_were_written(copy_of: Any) -> None:
    run = copy_of("ar", "run")
    sampled = isopix.sample(run, 3, nearest=True, **CPU)
    completed = isopix.complete(run, count=2, each=2, **CPU)
    for found in (sampled, sampled.nearest, completed):
        assert found._repr_png_() == found.path.read_bytes()
        assert "PIL" not in repr(found)
    masked = isopix.reconstruct(copy_of("bert", "other"), count=2, **CPU)
    assert masked._repr_png_() == masked.path.read_bytes()


def test_a_model_without_a_folder_has_pictures_too(pristine: Path) -> None:
    found = isopix.sample(isopix.load(pristine / "ar", **CPU), 2)
    assert found.path is None
    assert Image.open(io.BytesIO(found._repr_png_())).size == found.picture.size


def test_show_uses_the_notebook_where_there_is_one(pristine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    found = isopix.sample(isopix.load(pristine / "ar", **CPU), 2)
    monkeypatch.setattr(Image.Image, "show", lambda picture: shown.append("viewer"))
    found.show()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    found.show()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.append))
    found.show()
    assert shown == ["viewer", "viewer", found.picture]


def test_a_grid_has_every_pixel_in_reading_order() -> None:
    images = torch.randint(0, 256, (6, 3, 4, 5), dtype=torch.uint8)
    pixels = np.asarray(isopix.make_grid(images, columns=3, scale=1).convert("RGB"))
    places = [
        (row, col)
        for row in range(pixels.shape[0] - 3)
        for col in range(pixels.shape[1] - 4)
        if any(
            (pixels[row : row + 4, col : col + 5] == each.permute(1, 2, 0).numpy()).all() for each in images
        )
    ]
    assert len(places) == 6
    for image, (row, col) in zip(images, places, strict=True):
        assert (pixels[row : row + 4, col : col + 5] == image.permute(1, 2, 0).numpy()).all()
    assert len({row for row, _ in places}) == 2
    several = isopix.make_grid(images.view(2, 3, 3, 4, 5).numpy(), scale=1)
    assert (np.asarray(several.convert("RGB")) == pixels).all()


@pytest.mark.parametrize("given", [torch.zeros(2, 3, 4, 5), torch.zeros(3, 4, 5, dtype=torch.uint8)], ids=str)
def test_other_values_make_no_grid(given: torch.Tensor, unchecked: None) -> None:
    assert refusal(isopix.make_grid, given).startswith(
        "expected uint8 images [B 3 H W] or [B each 3 H W], got"
    )


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
    caption, header, *lines = repr(probed).splitlines()
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
