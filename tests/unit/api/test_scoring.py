"""Neighbors of images: duplicates and outliers."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import isopix
from isopix.api import neighbors_output
from isopix.plots.sheets import PairLabel
from tests.unit.api.conftest import Copy, assert_same_files, cli
from tests.unit.data.refusal import refusal

CPU: dict[str, Any] = {"device": "cpu"}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve gray images of 8 x 8 pixels, from dark and smooth to noise, and a copy of the last."""
    random = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(12):
        pixels = (random.random((8, 8)) * 20 * number).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number:02d}.png")
    Image.fromarray(pixels).convert("RGB").save(tmp_path / "photos" / "copy.png")
    return tmp_path / "photos"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_neighbors(copy_of: Copy, photos: Path) -> None:
    one, other = copy_of("bert", "one"), copy_of("bert", "other")
    options = ["--threshold", 0.999, "--num-neighbors", 3, "--device", "cpu"]
    printed = cli("neighbors", one, "--data", photos, *options)
    found = isopix.neighbors(other, data=photos, threshold=0.999, num_neighbors=3, **CPU)
    assert_same_files(one / "neighbors", other / "neighbors")
    assert found.num_duplicates == len(found.duplicates) == 1
    pair = found.duplicates[0]
    assert {Path(pair.first.name).name, Path(pair.second.name).name} == {"11.png", "copy.png"}
    assert pair.similarity == pytest.approx(1)
    assert pair.pixel_difference == 0
    assert "pairs with a similarity of 0.999 or more: 1\n" in printed
    assert "copy.png" in printed
    assert found.path is not None
    assert {each.name for each in found.path.iterdir()} == {
        "duplicates.csv",
        "duplicates.png",
        "neighbors.json",
        "outliers.csv",
        "outliers.png",
    }
    rows = table(found.path / "outliers.csv")
    distances = [each.distance for each in found.outliers]
    assert [float(each["distance"]) for each in rows] == distances == sorted(distances, reverse=True)
    assert rows[0]["image_name"] == found.outliers[0].image.name
    assert len(rows) == len(found.outliers) == 13


def test_an_image_has_one_short_name_in_all_places(
    copy_of: Copy, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in sorted(photos.glob("*.png")):
        folder = photos / ("dark" if file.stem < "06" else "noise")
        folder.mkdir(exist_ok=True)
        file.rename(folder / file.name)
    drawn: list[PairLabel] = []
    draw = neighbors_output.plot_pairs

    def plot_pairs(title: str, first: Any, second: Any, labels: Sequence[PairLabel]) -> Image.Image:
        drawn.extend(labels)
        return draw(title, first, second, labels)

    monkeypatch.setattr(neighbors_output, "plot_pairs", plot_pairs)
    options = ["--threshold", 0.999, "--num-neighbors", 3, "--pictures", 1, "--device", "cpu"]
    printed = cli("neighbors", copy_of("bert", "run"), "--data", photos, *options)
    assert {drawn[0].first, drawn[0].second} == {"noise/11.png", "noise/copy.png"}
    assert "noise/copy.png" in printed
    names = {str(each.relative_to(photos)) for each in photos.rglob("*.png")}
    assert {name for label in drawn for name in (label.first, label.second)} <= names


def test_pixel_differences_are_those_of_the_files(copy_of: Copy, photos: Path) -> None:
    run = copy_of("bert", "run")
    found = isopix.neighbors(run, data=photos, threshold=-1.0, num_neighbors=3, **CPU)
    assert found.num_duplicates == len(found.duplicates) == 13 * 12 // 2
    model = isopix.load(run, **CPU)
    for pair in found.duplicates[::7]:
        one, other = (model.preprocess(each.name).numpy().astype(float) for each in (pair.first, pair.second))
        assert pair.pixel_difference == pytest.approx(np.abs(one - other).mean())


def test_neighbors_without_options_compare_all_images_of_the_run(pristine: Path) -> None:
    model = isopix.load(pristine / "ar", device="cpu")
    found = isopix.neighbors(model, limit=20)
    data = {each.image.split for each in found.outliers}
    assert len(found.outliers) == sum(each["images"] for each in found.record["measurements"])
    assert data == {each["split"] for each in found.record["measurements"]}
    assert found.record["layer"] == 1  # of a network of depth 1 the middle is the last
    test = isopix.neighbors(model, limit=20, split="test")
    assert {each.image.split for each in test.outliers} == {"test"}


def test_wrong_calls_of_neighbors(pristine: Path, photos: Path) -> None:
    run = pristine / "ar"
    assert "threshold is 2" in refusal(lambda: isopix.neighbors(run, threshold=2))
    text = refusal(lambda: isopix.neighbors(run, data=photos, layer=3, **CPU))
    assert text == "layer 3 does not exist; layers are 0 to 1"
    text = refusal(lambda: isopix.neighbors(run, data=photos, num_neighbors=13, **CPU))
    assert text == "num_neighbors is 13; allowed for 13 images: 1 to 12"
