"""The plan of a study, and that a folder holds one study."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from isopix.recipes.isotropic import BLOCKS, CELLS, DEPTHS, ENCODINGS
from isopix.studies.inductive_bias.grid import SCALES, Study, name, plan_study
from isopix.studies.inductive_bias.trial import run_trial

SMALL = ("steps=2", "width=16", "data.rows=8", "data.cols=8")


def digits(pattern: str = "conv-*-1", seeds: int = 1) -> Study:
    """A study that is not written anywhere."""
    return Study(
        Path("nowhere"), plan_study("tiny", data="digits", pattern=pattern, seeds=seeds, settings=SMALL)
    )


def test_the_papers_scale_is_the_whole_grid() -> None:
    assert len(SCALES["paper"].architectures) == len(BLOCKS) * len(ENCODINGS) * len(DEPTHS) == 60
    assert len(plan_study("paper").architectures) == 60


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_is_a_part_of_the_grid_with_all_encodings_of_what_it_has(scale: str) -> None:
    architectures = SCALES[scale].architectures
    assert set(architectures) <= set(CELLS)
    for block, _, depth in architectures:
        assert all((block, encoding, depth) in architectures for encoding in ENCODINGS)


def test_patterns_choose_architectures_by_name() -> None:
    chosen = plan_study("tiny", pattern="conv-*-1,mixer-pix2vec-*").architectures
    names = ["conv-pix2vec-1", "conv-fourier-1", "conv-continuous-1", "mixer-pix2vec-1", "mixer-pix2vec-3"]
    assert list(map(name, chosen)) == names


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"scale": "huge"}, "unknown scale 'huge'; scales: tiny, small, paper"),
        ({"scale": "tiny", "pattern": "axial-*"}, "no trial of scale 'tiny' matches 'axial-"),
        ({"scale": "tiny", "seeds": 0}, "seeds is 0; allowed: 1 or more"),
        ({"scale": "tiny", "probe": "svm"}, "probe is 'svm'; allowed: adam, knn, lbfgs, ridge, sgd"),
    ],
)
def test_unknown_values_are_refused(given: dict[str, object], told: str) -> None:
    scale = str(given.pop("scale"))
    with pytest.raises(ValueError, match=told.replace("*", r"\*")):
        plan_study(scale, **given)  # type: ignore[arg-type]


def test_trials_are_ordered_by_seed_and_cost() -> None:
    specs = digits("conv-pix2vec-*", seeds=2).specs
    assert [spec.name for spec in specs] == [
        "conv-pix2vec-3-seed-0",
        "conv-pix2vec-1-seed-0",
        "conv-pix2vec-3-seed-1",
        "conv-pix2vec-1-seed-1",
    ]
    assert [spec.recipe.train.seed for spec in specs] == [0, 0, 1, 1]


def test_settings_reach_every_recipe_and_its_learning_rates() -> None:
    planned = plan_study("tiny", data="digits", seeds=1, settings=[*SMALL, "lr=0.003"])
    for spec in Study(Path("nowhere"), planned).specs:
        assert (spec.recipe.train.steps, spec.recipe.model.width, spec.recipe.data.source) == (
            2,
            16,
            "digits",
        )
        assert spec.lrs == (0.003, 0.001, 0.0003, 0.0001)


def test_a_study_is_extended_by_architectures_and_seeds_only(tmp_path: Path) -> None:
    out = tmp_path / "study"
    with Study.create(out, digits("conv-*-1").plan):
        pass
    with Study.create(out, digits("mixer-pix2vec-1", seeds=2).plan) as grown:
        assert len(grown.specs) == 8
    assert Study.open(out).plan == grown.plan
    with pytest.raises(ValueError, match=r"the study has settings steps=2 .*, not steps=3"):
        Study.from_plan(out, plan_study("tiny", data="digits", settings=["steps=3"]))


def test_a_study_goes_on_elsewhere_from_its_results_alone(tmp_path: Path) -> None:
    """The images may lie elsewhere, and must be the same; the run folders are not needed."""
    here, there = tmp_path / "here", tmp_path / "there"
    with Study.create(here, digits("conv-pix2vec-1").plan) as study:
        (spec,) = study.specs
        run_trial(spec._replace(probe_images={"train": 100, "validation": 50, "test": 50}), "cpu", 1)
        assert spec.read().status == "done"
    shutil.copytree(here / "results", there / "results")
    shutil.copyfile(here / "study.json", there / "study.json")
    planned = digits("conv-pix2vec-*", seeds=1).plan
    with Study.create(there, planned) as moved:
        assert [each.name for each in moved.missing(planned)] == ["conv-pix2vec-3-seed-0"]
        moved.require_images()
    other = replace(planned, data="translated-digits")
    with (
        Study.create(there, other) as moved,
        pytest.raises(ValueError, match="other images than those of conv-pix2vec-1-seed-0"),
    ):
        moved.require_images()


def test_another_probe_is_another_study(tmp_path: Path) -> None:
    planned = plan_study("tiny", data="digits", pattern="conv-pix2vec-1", settings=SMALL, probe="adam")
    with Study.create(tmp_path / "study", planned) as study:
        assert study.specs[0].probe.method.kind == "adam"
    with pytest.raises(ValueError, match="the study has probe adam, not None"):
        Study.from_plan(tmp_path / "study", replace(planned, probe=None))


def test_a_study_in_use_stays_as_it_was_planned(tmp_path: Path) -> None:
    with Study.create(tmp_path, digits("conv-*-1").plan) as study:
        with (
            pytest.raises(ValueError, match=r"study .* is in use by process"),
            Study.create(tmp_path, digits("mixer-*-1").plan),
        ):
            pass
        assert Study.open(tmp_path).plan == study.plan


@pytest.mark.parametrize(
    ("data", "words", "told"),
    [
        ("nowhere", (), "no file or folder 'nowhere'"),
        ("digits", ("data.holdout=0",), "a layer is chosen by validation images"),
        ("digits", ("evaluate_images=0",), "set evaluate_images above 0"),
    ],
)
def test_unsuitable_images_are_refused_at_once(data: str, words: tuple[str, ...], told: str) -> None:
    study = Study(Path("nowhere"), plan_study("tiny", data=data, seeds=1, settings=(*SMALL, *words)))
    with pytest.raises(ValueError, match=told):
        study.require_images()


def test_images_without_classes_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    for number in range(12):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
    study = Study(Path("nowhere"), plan_study("tiny", data=str(tmp_path), seeds=1, settings=SMALL))
    with pytest.raises(ValueError, match="study needs labels"):
        study.require_images()


def test_another_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="is not a study, and not empty"):
        Study.from_plan(tmp_path, digits().plan)
    with pytest.raises(ValueError, match="is not a study"):
        Study.open(tmp_path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is not JSON"),
        ('{"scale": "tiny"}', "has no 'architectures'"),
        ('{"scale": "huge"}', "cannot be read: scale is 'huge'; allowed: tiny, small, paper"),
        ('{"seeds": "many"}', "seeds is 'many'; it must be an integer"),
        (
            '{"architectures": [["conv", 1]]}',
            "it must be a list of lists, each a list of a string, a string, an",
        ),
        ('{"architectures": [["conv", "pix2vec", 5]]}', "conv-pix2vec-5 is no network of scale tiny"),
    ],
)
def test_a_damaged_plan_is_named(tmp_path: Path, content: str, told: str) -> None:
    with Study.create(tmp_path, digits("conv-pix2vec-1").plan):
        pass
    path = tmp_path / "study.json"
    damaged = (
        content
        if content in ("{", '{"scale": "tiny"}')
        else json.dumps({**json.loads(path.read_text()), **json.loads(content)})
    )
    path.write_text(damaged)
    with pytest.raises(ValueError, match=re.escape(told)):
        Study.open(tmp_path)


def test_invalid_settings_write_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown setting 'stepps'"):
        Study.from_plan(tmp_path / "study", plan_study("tiny", data="digits", settings=["stepps=3"]))
    assert not (tmp_path / "study").exists()
