"""`isopix score`: the scores are those of the model and of the run's own training images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import isopix
from tests.tiny_runs import CPU, TINY, Copy


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


UNIGRAM = "unigram_nats_per_code"


def draw(folder: Path, names: Sequence[str], brightness: int) -> None:
    """Noise images of 8 x 8 pixels, each another one, whose levels are below `brightness`."""
    folder.mkdir(exist_ok=True)
    for name in names:
        random = np.random.default_rng([*name.encode()])
        Image.fromarray((random.random((8, 8)) * brightness).astype(np.uint8)).save(folder / f"{name}.png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    draw(tmp_path / "photos", [f"dark{i}" for i in range(40)], 90)
    draw(tmp_path / "other", [f"other{i}" for i in range(4)], 256)
    return tmp_path / "photos"


def trained(folder: Path, *settings: str) -> isopix.Run:
    overrides = [*TINY, "holdout=0.2", *settings]
    return isopix.pretrain("igpt.digits", *overrides, data=folder, out=folder.parent / "run", device="cpu")


def scores(run: isopix.Run, folder: Path) -> dict[str, Any]:
    found = isopix.score(isopix.load(run.path, device="cpu"), data=folder.parent / "other").images.scores
    return {name: values.tolist() for name, values in found.items()}


def test_a_folder_without_the_training_images_has_no_unigram(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = trained(folder)
    for number in range(20):
        (folder / f"dark{number}.png").unlink()
    found = scores(run, folder)
    assert "nats_per_code" in found
    run.model.loaded.imported["imported"] = "x"  # the images of an imported model are not known
    isopix.score(run.model, data=folder.parent / "other")
    start = "the unigram scores need the training images of the run, and are left out: "
    lines = [each for each in caplog.messages if each.startswith(start)]
    assert UNIGRAM not in found
    assert "has changed since the run was trained" in lines[0]
    assert "of an imported model they are not known" in lines[1]
