"""`isopix neighbors`: copies are found among similar pairs, and outliers are far from others."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

import isopix
from isopix.probing import features
from tests.tiny_runs import CPU, Copy

SIZE = ("rows=8", "cols=8")  # of the inputs of the runs


def test_duplicates_are_found_the_largest_is_kept_and_the_outliers_have_flags(
    copy_of: Copy, photos: Path
) -> None:
    run = copy_of("bert", "run")
    with Image.open(photos / "11.png") as image:
        width, height = image.size
        image.resize((3 * width, 3 * height), Image.Resampling.NEAREST).save(photos / "x-large.png")
    found = isopix.neighbors(run, data=photos, num_neighbors=3, **CPU)
    [group] = found.duplicates
    names = [each.image.short_name for each in group]
    assert (names[0], {*names}) == ("x-large.png", {"11.png", "copy.png", "x-large.png"})
    assert [each.keep for each in group] == [True, False, False]
    assert [(each.width, each.height) for each in group][:2] == [(3 * width, 3 * height), (width, height)]
    assert max(each.difference for each in group) < found.threshold
    with (found.path / "duplicates.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(each["group"], each["keep"]) for each in rows] == [("0", "True"), ("0", "False"), ("0", "False")]
    assert [Path(each["name"]).name for each in rows] == names
    with (found.path / "outliers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    distances = [each.distance for each in found.outliers]
    assert [float(each["distance"]) for each in rows] == distances == sorted(distances, reverse=True)
    flags = {each.image.name: each.flags for each in found.outliers}
    surveyed = {
        each.image.name: ", ".join(each.flags) for each in isopix.data_show(photos, *SIZE).survey.flagged
    }
    assert {name: each for name, each in flags.items() if each} == surveyed != {}


def test_the_nearest_images_of_a_query_are_found_and_features_are_kept(
    copy_of: Copy, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = isopix.load(copy_of("bert", "run"), **CPU)
    query = tmp_path / "query.png"
    shutil.copy(photos / "03.png", query)
    found = isopix.neighbors(model, data=photos, query=query, num_neighbors=13, out=tmp_path / "found")
    [asked] = found.queries
    assert (asked.image.name, asked.nearest[0].image.short_name) == (str(query), "03.png")
    assert asked.nearest[0].similarity == pytest.approx(1)
    assert len({each.image for each in asked.nearest}) == 13
    assert {each.name for each in found.path.iterdir()} == {"queries.csv", "queries.png", "neighbors.json"}
    monkeypatch.setattr(features, "iter_layer", None)  # kept features are not computed again
    again = isopix.neighbors(model, data=photos, query=query, num_neighbors=13)
    assert again.queries == found.queries
    for change in ({"layer": 0}, {"pool": "flatten"}, {"split": "train", "limit": 5}):
        with pytest.raises(TypeError, match="not callable"):
            isopix.neighbors(model, data=photos, **change)


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
