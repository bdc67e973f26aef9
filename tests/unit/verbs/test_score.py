"""`isopix score`: the scores are those of the model."""

from pathlib import Path

import numpy as np
import pytest

import isopix
from tests.tiny_runs import CPU, Copy


def test_images_of_training_are_noted(pristine: Path) -> None:
    model = isopix.load(pristine / "ar", **CPU)
    trained = isopix.score(model, split="train")
    count = trained.measurement.images
    text = f"{count} of {count} images were used to train the run or to select its step"
    assert any(text in each for each in trained.warnings)
    assert isopix.score(model).warnings == ()


def test_a_single_image_is_scored_and_drawn(copy_of: Copy, photos: Path) -> None:
    run, path = copy_of("ar", "run"), photos / "11.png"
    found = isopix.score(run, data=path, **CPU)
    expected = float(isopix.load(run, **CPU).nll(path)[0])
    assert float(found.scores["nats_per_code"][0]) == pytest.approx(expected)
    with np.load(found.path / "surprise.npz") as maps:
        assert list(maps) == ["surprise"]
