"""Opened runs have their test images, and say what they cannot do."""

import shutil
from dataclasses import replace
from pathlib import Path

import torch

from isopix.objectives.objectives import NoObjective
from isopix.studio.run import ChosenImage, OpenedRun, image_of, open_runs, pixels_of
from tests.unit.data.refusal import refusal


def test_the_first_test_images_are_shown(opened: dict[str, OpenedRun]) -> None:
    run = opened["ar"]
    assert run.note == f"first {len(run.images)} of {len(run.images)} test images of digits"
    image = run.images[2:3]
    assert torch.equal(image_of(run, ChosenImage(pixels_of(image), 2)), image)


def test_what_a_model_cannot_do_is_said(opened: dict[str, OpenedRun]) -> None:
    run = opened["ar"]
    assert [run.problem(each) for each in ("complete", "attention", "surprise")] == ["", "", ""]
    recipe = replace(run.loaded.recipe, objective=NoObjective())
    other = replace(run, model=type(run.model)(replace(run.loaded, recipe=recipe)))
    assert "cannot complete images; try isopix probe" in other.problem("complete")
    assert "no likelihood and no masked loss" in other.problem("surprise")


def test_what_is_no_run_or_no_dataset_is_refused(pristine: Path, tmp_path: Path) -> None:
    wrong = refusal(lambda: open_runs([pristine / "ar"], data=str(tmp_path / "nothing"), device="cpu"))
    assert "nothing" in wrong
    assert "is not a run" in refusal(lambda: open_runs([tmp_path], data=None, device="cpu"))


def test_equal_names_are_told_apart(pristine: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    other = shutil.copytree(pristine / "ar", tmp_path / "again" / "ar")
    names = [run.name for run in open_runs([pristine / "ar", other], data=None, device="cpu")]
    assert names == [f"1: {pristine / 'ar'}", f"2: {other}"]
