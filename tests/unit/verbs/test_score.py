"""`isopix score`: the scores are those of the model, in the record, the files and the tables."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import isopix
from isopix.data.dataset import load_dataset
from tests.tiny_runs import Copy

CPU: dict[str, Any] = {"device": "cpu"}


def test_the_files_and_the_tables_compare_two_datasets(copy_of: Copy, photos: Path) -> None:
    run = copy_of("ar", "run")
    found = isopix.score(run, against=photos, maps=2, **CPU)
    assert found.path.parent == run / "scores"
    names = {each.name for each in found.path.iterdir()}
    assert names == {"score.json", "scores.csv", "surprise.png", "surprise.npz"}
    summary, least, other, others_least, auroc = found.tables()
    assert len(summary.rows) == len(found.images.scores) == len(auroc.rows) == len(found.auroc)
    assert len(least.rows) == len(others_least.rows) == 5
    assert other.caption.startswith("13 images of photos")
    again = isopix.score(run, against=photos, maps=0, **CPU)
    assert again.auroc == found.auroc


def test_the_scores_are_those_of_the_model(pristine: Path, tmp_path: Path) -> None:
    run = isopix.Run(pristine / "ar", device="cpu")
    found = isopix.score(run, out=tmp_path / "scores", **CPU)
    data = load_dataset(run.recipe.data)
    expected = run.model.nll(data.test.images[:]).tolist()
    assert found.images.scores["nats_per_code"].tolist() == pytest.approx(expected, rel=1e-5)
    assert found.images.summary["nats_per_code"].mean == pytest.approx(np.mean(expected), rel=1e-5)
    with (tmp_path / "scores" / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(each["nats_per_code"]) for each in rows] == pytest.approx(expected, rel=1e-5)
    assert [each["label"] for each in rows] == [data.classes[i] for i in data.test.labels]
    with np.load(tmp_path / "scores" / "surprise.npz") as maps:
        highest = np.sort(expected)[::-1]
        assert maps["least_likely"].mean((1, 2)) == pytest.approx(highest[:8], rel=1e-5)
        assert maps["most_likely"].mean((1, 2)) == pytest.approx(highest[::-1][:8], rel=1e-5)


@pytest.mark.parametrize("name", ["ar", "bert"])
def test_the_least_likely_images_are_named_without_their_folder(
    pristine: Path, photos: Path, name: str
) -> None:
    found = isopix.score(isopix.load(pristine / name, **CPU), data=photos, masks=2)
    assert found.path is None
    assert ("masked_loss" in found.images.scores) == (name == "bert")
    values = next(iter(found.images.scores.values()))
    order = values.argsort(descending=True, stable=True).tolist()[:5]
    listed = [(Path(found.images.names[i]).name, f"{values[i]:.4f}") for i in order]
    assert [row[:2] for row in found.tables()[1].rows] == listed
    bits = dict(zip(found.images.names, found.images.scores["png_bits_per_dim"].tolist(), strict=True))
    bits = {Path(image).name: value for image, value in bits.items()}
    assert bits["11.png"] == bits["copy.png"] > bits["00.png"]


def test_images_of_training_and_of_both_datasets_are_noted(
    pristine: Path, photos: Path, tmp_path: Path
) -> None:
    model = isopix.load(pristine / "ar", **CPU)
    trained = isopix.score(model, split="train")
    count = trained.images.measurement.images
    text = f"{count} of {count} images were used to train the run or to select its step"
    assert any(text in each for each in trained.warnings)
    assert isopix.score(model).warnings == ()
    same = isopix.score(model, data=photos, against=photos)
    assert "photos and photos are the same 13 images: every AUROC is 0.5" in same.warnings
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.png").write_bytes((photos / "00.png").read_bytes())
    noise = np.random.default_rng(1).integers(0, 256, (8, 8), np.uint8)
    Image.fromarray(noise).save(tmp_path / "some" / "new.png")
    some = isopix.score(model, data=photos, against=tmp_path / "some")
    assert any("1 of 2 images of some are also among those of photos" in each for each in some.warnings)


def test_a_single_image_is_scored_and_drawn(copy_of: Copy, photos: Path) -> None:
    run, path = copy_of("ar", "run"), photos / "11.png"
    found = isopix.score(run, data=path, **CPU)
    expected = float(isopix.load(run, **CPU).nll(path)[0])
    assert float(found.images.scores["nats_per_code"][0]) == pytest.approx(expected)
    with np.load(found.path / "surprise.npz") as maps:
        assert list(maps) == ["surprise"]
