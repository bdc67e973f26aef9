"""Scores, neighbors and datasets are short tables in notebooks, without the names of all images."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import isopix
from isopix.api.notebook import TableOutput

CPU: dict[str, Any] = {"device": "cpu"}
MOST_LINES = 15


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for number in range(40):
        path = tmp_path / "photos" / ("dark" if number < 20 else "light") / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((random.random((8, 8)) * (20 + number)).astype(np.uint8)).save(path)
    return tmp_path / "photos"


def lines(found: TableOutput) -> list[str]:
    text = repr(found)
    assert "<function" not in text
    assert found._repr_html_().count("<tr>") == len(text.splitlines()) - 1
    assert len(text.splitlines()) <= MOST_LINES
    return text.splitlines()


def test_scores_are_a_table_of_means(pristine: Path, photos: Path) -> None:
    model = isopix.load(pristine / "ar", **CPU)
    found = isopix.score(model, data=photos)
    caption, header, *rows = lines(found)
    assert caption.startswith("40 images of photos")
    assert header.split() == ["score", "mean", "±", "standard", "error"]
    assert len(rows) == len(found.images.scores)
    assert f"{found.images.summary['nats_per_code'].mean:.4f} ±" in rows[0]
    both = isopix.score(model, limit=20, against=photos)
    _, header, *rows = lines(both)
    assert header.split() == ["score", "digits", "photos", "AUROC", "(95", "%", "CI)"]
    assert f"{both.auroc['nats_per_code'].auroc:.3f} (" in rows[0]
    assert len(rows) == len(both.auroc)


def test_neighbors_are_a_table_of_the_first_pairs_and_outliers(pristine: Path, photos: Path) -> None:
    model = isopix.load(pristine / "ar", **CPU)
    found = isopix.neighbors(model, data=photos, threshold=-1.0, num_neighbors=3)
    caption, _, *rows = lines(found)
    assert caption.startswith("40 images of photos, layer 1: ")
    assert len(rows) == 10
    assert rows[0].startswith("near-duplicates")
    assert f"{found.duplicates[0].similarity:.4f}" in rows[0]
    assert rows[5].split()[-2:] == [
        str(Path(each.name).relative_to(photos)) for each in found.outliers[0][1:]
    ]
