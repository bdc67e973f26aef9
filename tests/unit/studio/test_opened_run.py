"""Opened runs read images as their dataset was read, and say what they cannot do."""

import io
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.data.dataset import load_dataset
from isopix.objectives.objectives import NoObjective
from isopix.studio.run import ChosenImage, OpenedRun, open_runs, pixels_of
from tests.unit.data.refusal import refusal


def encoded(image: Image.Image, format: str, **options: object) -> bytes:
    content = io.BytesIO()
    image.save(content, format, **options)
    return content.getvalue()


def test_test_images_stay_as_they_are(opened: dict[str, OpenedRun]) -> None:
    run = opened["ar"]
    assert run.note == f"first {len(run.images)} of {len(run.images)} test images of digits"
    image = run.images[2:3]
    assert torch.equal(run.preprocess(ChosenImage(pixels_of(image), 2)), image)


@pytest.mark.parametrize("crop", ["center", "squash", "resized_center"])
def test_a_file_is_preprocessed_as_in_a_dataset(
    opened: dict[str, OpenedRun], tmp_path: Path, crop: str
) -> None:
    rng = np.random.default_rng(0)
    photo = Image.fromarray(rng.integers(0, 255, (60, 90, 3), dtype=np.uint8))
    for name in ("a", "b", "c"):
        (tmp_path / "photos").mkdir(exist_ok=True)
        photo.rotate(len(name)).save(tmp_path / "photos" / f"{name}.jpg", quality=95)
    content = (tmp_path / "photos" / "b.jpg").read_bytes()
    run = opened["ar"]
    data = replace(run.loaded.recipe.data, crop=crop)
    recipe = replace(run.loaded.recipe, data=data)
    same = replace(run, model=replace_recipe(run, recipe))
    settings = replace(data, source=str(tmp_path / "photos"), holdout=0.0, limit=None)
    expected = load_dataset(settings).train.images[0]
    assert torch.equal(same.preprocess(ChosenImage(content))[0], expected)


def replace_recipe(run: OpenedRun, recipe: object):
    return type(run.model)(replace(run.loaded, recipe=recipe))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not an image", "not a JPEG, PNG, WEBP, BMP, GIF or TIFF image"),
        (b"", "empty file"),
        (encoded(Image.new("L", (5000, 4000)), "PNG"), "5000x4000 pixels, above the limit of 16,000,000"),
    ],
)
def test_bad_files_are_refused_in_a_line(opened: dict[str, OpenedRun], content: bytes, reason: str) -> None:
    message = refusal(lambda: opened["ar"].preprocess(ChosenImage(content)))
    assert message == f"the image cannot be read: {reason}"


def test_cmyk_and_animations_are_read(opened: dict[str, OpenedRun]) -> None:
    frames = [Image.new("L", (20, 20), level) for level in (200, 10)]
    animated = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert int(opened["ar"].preprocess(ChosenImage(animated)).max()) == 200
    assert int(opened["ar"].preprocess(ChosenImage(animated)).min()) == 200
    cmyk = encoded(Image.new("CMYK", (20, 30), (0, 0, 0, 0)), "JPEG")
    assert bool((opened["ar"].preprocess(ChosenImage(cmyk)) == 255).all())


def test_what_a_model_cannot_do_is_said(opened: dict[str, OpenedRun]) -> None:
    run = opened["ar"]
    assert [run.problem(each) for each in ("complete", "attention", "surprise")] == ["", "", ""]
    recipe = replace(run.loaded.recipe, objective=NoObjective())
    other = replace(run, model=replace_recipe(run, recipe))
    assert "cannot complete images; try isopix probe" in other.problem("complete")
    assert "no likelihood and no masked loss" in other.problem("surprise")


def test_a_run_without_its_images_is_opened(pristine: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(pristine / "ar", tmp_path / "moved")
    wrong = refusal(lambda: open_runs([folder], data=str(tmp_path / "nothing"), device="cpu"))
    assert "nothing" in wrong
    assert "is not a run" in refusal(lambda: open_runs([tmp_path], data=None, device="cpu"))


def test_equal_names_are_told_apart(pristine: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    other = shutil.copytree(pristine / "ar", tmp_path / "again" / "ar")
    names = [run.name for run in open_runs([pristine / "ar", other], data=None, device="cpu")]
    assert names == [f"1: {pristine / 'ar'}", f"2: {other}"]
