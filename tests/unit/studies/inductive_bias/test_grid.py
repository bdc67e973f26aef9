"""The plan of a study, and that a folder holds one study."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from isopix.recipes.isotropic import CELLS, ENCODINGS
from isopix.studies.inductive_bias.grid import SCALES, Study, StudyPlan, plan_study
from isopix.studies.inductive_bias.trial import run_trial

SMALL = ("steps=2", "width=16", "data.rows=8", "data.cols=8")


def plan(pattern: str = "conv-*-1", seeds: int = 1, *words: str, data: str = "digits") -> StudyPlan:
    return plan_study("tiny", data=data, pattern=pattern, seeds=seeds, settings=(*SMALL, *words))


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_is_a_part_of_the_grid_with_all_encodings_of_what_it_has(scale: str) -> None:
    architectures = SCALES[scale].architectures
    assert set(architectures) <= set(CELLS)
    assert len(architectures) == 60 or scale != "paper"
    for block, _, depth in architectures:
        assert all((block, encoding, depth) in architectures for encoding in ENCODINGS)


def test_trials_are_ordered_by_seed_and_cost_and_settings_reach_every_recipe() -> None:
    specs = Study(Path("nowhere"), plan("conv-pix2vec-3,conv-p*-1", 2, "lr=0.003")).specs
    assert [(spec.name, spec.recipe.train.seed) for spec in specs] == [
        ("conv-pix2vec-3-seed-0", 0),
        ("conv-pix2vec-1-seed-0", 0),
        ("conv-pix2vec-3-seed-1", 1),
        ("conv-pix2vec-1-seed-1", 1),
    ]
    for spec in specs:
        assert (spec.recipe.train.steps, spec.recipe.model.width) == (2, 16)
        assert spec.lrs == (0.003, 0.001, 0.0003, 0.0001)


def test_a_study_is_extended_by_architectures_and_seeds_only(tmp_path: Path) -> None:
    out = tmp_path / "study"
    with Study.create(out, plan()) as study:
        with pytest.raises(ValueError, match="is in use by process"), Study.create(out, plan("mixer-*-1")):
            pass
        assert Study.open(out).plan == study.plan
    with Study.create(out, plan("mixer-pix2vec-1", 2)) as grown:
        assert len(grown.specs) == 8
    assert Study.open(out).plan == grown.plan
    for other, told in (
        (replace(grown.plan, settings=("steps=3",)), "has settings .*steps=2.*, not .*steps=3"),
        (replace(grown.plan, probe="adam"), "has probe none, not adam"),
    ):
        with pytest.raises(ValueError, match=told):
            Study.from_plan(out, other)


def test_a_study_goes_on_elsewhere_from_its_results_alone(tmp_path: Path) -> None:
    """The images may lie elsewhere, and must be the same; the run folders are not needed."""
    here, there = tmp_path / "here", tmp_path / "there"
    with Study.create(here, plan("conv-pix2vec-1")) as study:
        (spec,) = study.specs
        run_trial(spec._replace(probe_images={"train": 100, "validation": 50, "test": 50}), "cpu", 1)
        assert spec.read().status == "done"
    shutil.copytree(here / "results", there / "results")
    shutil.copyfile(here / "study.json", there / "study.json")
    planned = plan("conv-pix2vec-*")
    with Study.create(there, planned) as moved:
        assert [each.name for each in moved.missing(planned)] == ["conv-pix2vec-3-seed-0"]
        moved.require_images()
    with (
        Study.create(there, replace(planned, data="translated-digits")) as moved,
        pytest.raises(ValueError, match="other images than those of conv-pix2vec-1-seed-0"),
    ):
        moved.require_images()


def in_other_folder(folder: Path) -> None:
    (folder / "letter.txt").write_text("dear")
    Study.from_plan(folder, plan())


def unlabeled(folder: Path) -> None:
    for number in range(12):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / f"{number}.png")
    Study(Path("nowhere"), plan(data=str(folder))).require_images()


def damaged(folder: Path) -> None:
    (folder / "study.json").write_text('{"scale": "tiny", "seeds": "many"}')
    Study.open(folder)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "other folder": (in_other_folder, "is not a study, and not empty"),
    "damaged": (damaged, "study.json cannot be read: "),
    "unlabeled": (unlabeled, "study needs labels"),
    "no validation": (
        lambda folder: Study(folder, plan("*", 1, "data.holdout=0")).require_images(),
        "a layer is chosen by validation images",
    ),
}


@pytest.mark.parametrize(("act", "told"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_study_is_refused(tmp_path: Path, act: Callable[[Path], object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        act(tmp_path)
