"""Scores and neighbors of images from Python are those of the command line, in the same files."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import isopix
from isopix.api import neighbors_output
from isopix.api.score_output import ScoreOutput
from isopix.data.dataset import load_dataset
from isopix.plots.sheets import PairLabel
from isopix.storage.atomic import read_json
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


def test_score(copy_of: Copy, photos: Path) -> None:
    one, other = copy_of("ar", "one"), copy_of("ar", "other")
    options = ["--against", photos, "--maps", 2, "--device", "cpu"]
    printed = json.loads(cli("score", one, *options, "--json"))
    found = isopix.score(other, against=photos, maps=2, **CPU)
    assert_same_files(one / "scores", other / "scores")
    assert found.path is not None
    assert {each.name for each in found.path.iterdir()} == {
        "scores.csv",
        "scores.json",
        "surprise.png",
        "surprise.npz",
    }
    assert printed["auroc"].keys() == found.auroc.keys() == found.images.scores.keys()
    assert printed["measurement"] == found.images.measurement.to_dict()
    assert "images" not in printed


@pytest.mark.parametrize(
    ("name", "title", "columns"),
    [
        ("ar", "Least likely images of photos", "nats per code  bits per dim  image"),
        ("bert", "Images with the highest loss of photos", "image"),
    ],
)
def test_the_least_likely_images_are_named(
    copy_of: Copy, photos: Path, name: str, title: str, columns: str
) -> None:
    printed = cli("score", copy_of(name, "run"), "--data", photos, "--maps", 2, "--device", "cpu")
    _, _, shown = printed.partition(f"\n{title}\n")
    header, _, *lines = shown.splitlines()
    assert header.endswith(columns)
    found = isopix.score(isopix.load(copy_of(name, "other"), **CPU), data=photos).images
    values = next(iter(found.scores.values()))
    expected = [
        (f"{values[i]:.4f}", Path(found.names[i]).name) for i in values.argsort(descending=True, stable=True)
    ]
    assert [(line.split()[0], line.split()[-1]) for line in lines[:5]] == expected[:5]
    assert lines[5] == ""


def test_images_that_both_datasets_have_are_noted(copy_of: Copy, photos: Path, tmp_path: Path) -> None:
    run, words = copy_of("ar", "run"), ["--maps", 0, "--device", "cpu"]
    printed = cli("score", run, "--data", photos, "--against", photos, *words)
    note = "note: photos and photos are the same 13 images: every AUROC is 0.5"
    assert [line for line in printed.splitlines() if line.startswith("note: photos and")] == [note]
    (tmp_path / "some").mkdir()
    for name in ("00", "11"):
        (tmp_path / "some" / f"{name}.png").write_bytes((photos / f"{name}.png").read_bytes())
    noise = np.random.default_rng(1).integers(0, 256, (8, 8), np.uint8)
    Image.fromarray(noise).save(tmp_path / "some" / "new.png")
    text = "2 of 3 images of some are also among those of photos: the AUROC counts them on both sides"
    assert f"note: {text}" in cli("score", run, "--data", photos, "--against", tmp_path / "some", *words)
    other = isopix.score(isopix.load(run, **CPU), limit=20, against=photos).against
    assert other is not None
    assert not any("AUROC" in each for each in other.measurement.warnings)


def test_the_scores_are_those_of_the_model(pristine: Path, tmp_path: Path) -> None:
    run = isopix.Run(pristine / "ar", device="cpu")
    found = isopix.score(run, out=tmp_path / "scores", **CPU)
    data = load_dataset(run.recipe.data)
    expected = run.model.nll(data.test.images[:]).tolist()
    assert found.images.scores["nats_per_code"].tolist() == pytest.approx(expected, rel=1e-5)
    assert (found.images.data, found.images.split) == ("digits", "test")
    rows = table(tmp_path / "scores" / "scores.csv")
    assert [float(each["nats_per_code"]) for each in rows] == pytest.approx(expected, rel=1e-5)
    assert [each["label"] for each in rows] == [data.classes[i] for i in data.test.labels]
    assert rows[3]["index"] == "3"
    record = read_json(tmp_path / "scores" / "scores.json")
    assert record["scores"]["nats_per_code"]["mean"] == pytest.approx(np.mean(expected), rel=1e-5)
    assert [each["nats_per_code"] for each in record["images"]] == pytest.approx(expected, rel=1e-5)
    maps = np.load(tmp_path / "scores" / "surprise.npz")
    highest = np.sort(expected)[::-1][:8]
    assert maps["least_likely"].mean((1, 2)) == pytest.approx(highest, rel=1e-5)
    assert maps["most_likely"].mean((1, 2)) == pytest.approx(np.sort(expected)[:8], rel=1e-5)


def test_images_of_a_folder_have_their_names(pristine: Path, photos: Path) -> None:
    model = isopix.load(pristine / "ar", device="cpu")
    found = isopix.score(model, data=photos)
    assert found.path is None
    names = [Path(name).name for name in found.images.names]
    assert names == sorted(names)
    assert set(found.images.labels) == {""}
    bits = dict(zip(names, found.images.scores["png_bits_per_dim"].tolist(), strict=True))
    assert bits["11.png"] == bits["copy.png"] > bits["00.png"]


def test_images_of_training_are_left_out_or_noted(pristine: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = pristine / "ar"
    found = score_without_files(run, split="train")
    count = len(found.images.names)
    warning = f"{count} of {count} images were used to train the run or to select its step"
    assert any(warning in each for each in found.images.measurement.warnings)
    assert not score_without_files(run).images.measurement.warnings


def score_without_files(run: Path, **settings: Any) -> ScoreOutput:
    return isopix.score(isopix.load(run, device="cpu"), **settings)


def test_a_masked_model_has_a_masked_loss_and_no_likelihood(pristine: Path) -> None:
    found = score_without_files(pristine / "bert", limit=20, masks=2)
    expected = {"masked_loss", "png_bits_per_dim", "webp_bits_per_dim", "unigram_nats_per_code"}
    assert found.images.scores.keys() == expected
    again = score_without_files(pristine / "bert", limit=20, masks=2)
    assert found.images.scores["masked_loss"].equal(again.images.scores["masked_loss"])
    assert found.record["masks"] == 2


def test_wrong_calls_of_score(pristine: Path, tmp_path: Path) -> None:
    run = pristine / "ar"
    assert "masks is 0; allowed: 1 or more" in refusal(lambda: isopix.score(run, masks=0))
    assert "maps is -1" in refusal(lambda: isopix.score(run, maps=-1))
    (tmp_path / "file").touch()
    text = refusal(lambda: isopix.score(run, out=tmp_path / "file", **CPU))
    assert text == f"out {tmp_path / 'file'} is a file; results are several files: give a folder"
    assert "missing" in refusal(lambda: isopix.score(run, data=tmp_path / "missing", **CPU))


def test_a_single_image_is_scored_and_drawn(copy_of: Copy, photos: Path) -> None:
    path = sorted(photos.rglob("*.png"))[0]
    run = copy_of("ar", "run")
    found = isopix.score(run, data=path, **CPU)
    assert found.images.names == [str(path)]
    model = isopix.load(run, **CPU)
    assert float(found.images.scores["nats_per_code"][0]) == pytest.approx(float(model.nll(path)[0]))
    assert found.path is not None
    with np.load(found.path / "surprise.npz") as maps:
        assert list(maps) == ["surprise"]
    completed = isopix.complete(run, data=path, each=1, **CPU)
    assert len(completed.inputs) == 1
    with pytest.raises(ValueError, match="two images or more, and 1 is given"):
        isopix.neighbors(run, data=path, **CPU)


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
