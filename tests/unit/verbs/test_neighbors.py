"""`isopix neighbors`: copies are found among similar pairs, and outliers are far from others."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import isopix
from tests.tiny_runs import CPU, Copy


def test_a_copy_is_found_and_the_list_of_outliers_is_saved(copy_of: Copy, photos: Path) -> None:
    run = copy_of("bert", "run")
    for file in sorted(photos.glob("*.png")):
        folder = photos / ("dark" if file.stem < "06" else "noise")
        folder.mkdir(exist_ok=True)
        file.rename(folder / file.name)
    found = isopix.neighbors(run, data=photos, threshold=0.999, num_neighbors=3, **CPU)
    [pair] = found.duplicates
    assert {pair.first.short_name, pair.second.short_name} == {"noise/11.png", "noise/copy.png"}
    assert (pair.similarity, pair.pixel_difference) == (pytest.approx(1), 0)
    with (found.path / "outliers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    distances = [each.distance for each in found.outliers]
    assert [float(each["distance"]) for each in rows] == distances == sorted(distances, reverse=True)
    assert rows[0]["image_name"] == found.outliers[0].image.name
    nearest = {each.image.short_name: each.nearest.short_name for each in found.outliers}
    assert (nearest["noise/11.png"], nearest["noise/copy.png"]) == ("noise/copy.png", "noise/11.png")
    assert len(rows) == found.num_images == 13


def test_pixel_differences_are_those_of_the_files(copy_of: Copy, photos: Path) -> None:
    model = isopix.load(copy_of("bert", "run"), **CPU)
    found = isopix.neighbors(model, data=photos, threshold=-1.0, num_neighbors=3)
    assert found.num_duplicates == len(found.duplicates) == 13 * 12 // 2
    for pair in found.duplicates[::7]:
        one, other = (model.preprocess(each.name).numpy().astype(float) for each in (pair.first, pair.second))
        assert pair.pixel_difference == pytest.approx(np.abs(one - other).mean())


def test_a_few_images_are_compared_with_all_others_by_default(copy_of: Copy, photos: Path) -> None:
    model = isopix.load(copy_of("bert", "run"), **CPU)
    for count in (10, 2):
        for file in sorted(photos.glob("*.png"))[count:]:
            file.unlink()
        found = isopix.neighbors(model, data=photos)
        assert (found.num_images, found.num_neighbors) == (count, count - 1)


def test_the_layer_is_the_one_that_validation_images_chose(copy_of: Copy) -> None:
    run = copy_of("ar", "run")
    path = isopix.probe(run, method="ridge", **CPU).path
    record = json.loads(path.read_text())
    record["network"]["best_index"] = 0
    for layer, test in zip(record["network"]["layers"], (0.1, 0.9), strict=True):
        layer.update(val_accuracy=1 - test, test_accuracy=test)
    path.write_text(json.dumps(record))
    assert isopix.neighbors(run, limit=20, pictures=0, **CPU).layer == 0


def test_all_images_of_the_run_are_compared_at_the_best_layer_of_its_probe(copy_of: Copy) -> None:
    run = copy_of("ar", "run")
    found = isopix.neighbors(isopix.load(run, **CPU), limit=20)
    assert found.num_images == sum(each.images for each in found.measurements)
    assert {each.image.split for each in found.outliers} == {each.split for each in found.measurements}
    assert found.layer == 1  # of a network of depth 1 the middle is the last
    probed = isopix.probe(run, layer=0, method="ridge", **CPU)
    assert isopix.neighbors(run, limit=20, pictures=0, **CPU).layer == probed.best.layer == 0
