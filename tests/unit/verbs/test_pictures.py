"""`sample`, `complete` and `reconstruct`: what they draw, of which images, and what they write."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import isopix
from isopix.pretrained.model import PretrainedModel
from tests.tiny_runs import CPU
from tests.unit.data.refusal import refusal


def load(folder: Path, **options: Any) -> PretrainedModel:
    return isopix.load(folder, **CPU, **options)


def test_the_precision_is_that_of_the_model_unless_another_is_given(pristine: Path) -> None:
    model = load(pristine / "ar", precision="bf16")
    images = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    assert isopix.sample(model, 2).sampling.precision == "bf16"
    assert isopix.complete(model, images).sampling.precision == "bf16"
    assert isopix.sample(model, 2, precision="fp32").sampling.precision == "fp32"


def test_an_autoregressive_model_says_that_it_does_not_see_later_pixels(pristine: Path) -> None:
    model, images = load(pristine / "ar"), torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    assert isopix.complete(model, images, mask="rows:3").warnings == ()
    [warning] = isopix.complete(model, images, mask="rectangle").warnings
    assert "the model does not see them" in warning


def test_a_model_leaves_no_file_and_given_images_name_no_dataset(pristine: Path) -> None:
    found = isopix.reconstruct(load(pristine / "bert"), np.zeros((3, 8, 8, 3), np.uint8))
    measured = found.measurement
    assert (measured.count, measured.data, measured.split) == ("3 given images", "", None)
    assert found.path is None


def test_a_picture_is_shown_in_a_notebook(copy_of: Any) -> None:
    found = isopix.sample(copy_of("ar", "run"), 2, **CPU)
    with Image.open(found.path) as written:
        assert np.array_equal(np.asarray(written), np.asarray(found.picture))
    assert found._repr_html_().startswith('<img src="data:image/png;base64,iVBOR')


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: isopix.sample(run, 10**11, **CPU), "not enough memory for 100,000,000,000 images"),
        (lambda run: isopix.complete(run, count=999, **CPU), "999 images requested; digits has"),
        (lambda run: isopix.complete(run, rows=3, mask="half", **CPU), "rows 3 and mask half are both given"),
    ],
)
def test_wrong_arguments_are_one_line(pristine: Path, call: Any, message: str) -> None:
    assert refusal(call, pristine / "ar", kind=(ValueError, RuntimeError)).startswith(message)


def test_a_grid_has_every_pixel_in_reading_order() -> None:
    images = torch.randint(0, 256, (6, 3, 4, 5), dtype=torch.uint8)
    grid = isopix.make_grid(images, columns=3, scale=1)
    pixels = np.asarray(grid.convert("RGB"))
    tiles = np.lib.stride_tricks.sliding_window_view(pixels, (4, 5, 3))[:, :, 0]
    places = [
        tuple(np.argwhere((tiles == each.permute(1, 2, 0).numpy()).all((2, 3, 4)))[0]) for each in images
    ]
    assert places == sorted(set(places))
    assert len({row for row, _ in places}) == 2
    several = isopix.make_grid(images.view(2, 3, 3, 4, 5).numpy(), scale=1)
    assert several.tobytes() == grid.tobytes()
    with pytest.raises(ValueError, match=r"expected uint8 images \[B 3 H W\] or \[B each 3 H W\], got"):
        isopix.make_grid(np.zeros((2, 3, 4, 5)))
