"""The chart of probe accuracy during training is shown for runs that have it, and for no other."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from isopix.data.dataset import DataConfig
from isopix.recipes import igpt
from isopix.recipes.recipe import Recipe
from isopix.reporting import page
from isopix.reporting.curve_sections import loss_section, probe_curve
from isopix.reporting.run_reader import read_run
from isopix.storage.run_folder import RunFolder
from tests.unit.reporting.cases import baselines, whole


def probed(path: Path, steps: int = 6, recipe: Recipe | None = None) -> RunFolder:
    """A run with a probe before its first step and after `steps` others."""
    run = whole(path, recipe)
    for step in range(steps + 1):
        accuracy = 0.2 + 0.05 * step
        held_out = {"kind": "evaluation", "split": "validation", "images": 64, "loss_nats": 2.8 - step / 10}
        score = {"probe_accuracy": accuracy, "probe_low": accuracy - 0.1, "probe_high": accuracy + 0.1}
        with run.log.open("a") as log:
            log.write(json.dumps({**held_out, **score, "probe_images": 500, "step": 10 * step}) + "\n")
    return run


def test_its_caption_gives_steps_images_and_the_correlation(tmp_path: Path) -> None:
    made = probe_curve({"run": read_run(probed(tmp_path / "run"))}, "name")
    assert made is not None
    assert "at steps 10 to 60, on 500 validation images" in made.caption
    assert "Spearman’s rank correlation" in made.caption
    assert "run: 50.0\u00a0% at 2.200 nats, ρ −1.00" in made.drawing
    few = probe_curve({"run": read_run(probed(tmp_path / "few", 3))}, "name")
    assert few is not None
    assert "Spearman" not in few.caption


def test_a_run_with_one_probe_has_no_line(tmp_path: Path) -> None:
    assert probe_curve({"run": read_run(probed(tmp_path / "run", 1))}, "name") is None


@pytest.mark.parametrize(("other", "shown"), [("probed", True), ("other images", False), ("not", False)])
def test_several_runs_share_a_chart_if_their_images_are_the_same(
    tmp_path: Path, other: str, shown: bool
) -> None:
    elsewhere = replace(igpt.digits(), data=DataConfig(source="cifar10", rows=8, cols=8))
    runs = {
        "probed": lambda path: probed(path, recipe=igpt.digits_bert()),
        "other images": lambda path: probed(path, recipe=elsewhere),
        "not": whole,
    }
    both = {
        "one": read_run(probed(tmp_path / "one")),
        "other": read_run(runs[other](tmp_path / "other")),
    }
    assert (probe_curve(both, "name") is not None) == shown


def test_the_page_shows_one_of_each_run_and_one_of_all(tmp_path: Path) -> None:
    one, other = probed(tmp_path / "one"), probed(tmp_path / "other", recipe=igpt.digits_bert())
    assert page.build([one, other]).count("Linear-probe accuracy of the best layer") == 3
    assert page.build([one]).count("Linear-probe accuracy of the best layer") == 1
    assert "Loss and probe accuracy" not in page.build([whole(tmp_path / "bare")])


def test_the_loss_is_shown_with_the_baselines_of_its_split(tmp_path: Path) -> None:
    run = read_run(whole(tmp_path / "run"))
    assert not loss_section(run, "name", "run").panels[0].tables
    [panel] = loss_section(
        replace(run, log=[baselines("validation"), baselines(), *run.log]), "name", "run"
    ).panels
    [table] = panel.tables
    assert [row.cells for row in table.rows] == [
        ["unigram", "2.071", "2.988"],
        ["top neighbor", "1.766", "2.548"],
        ["PNG", "2.330", "3.361"],
    ]
    assert "test loss on 60 images" in panel.notes[-2]
    assert panel.notes[-1] == "PNG and WebP: files of many images side by side, in the colors of the codec."
    for shown in ("unigram 2.07", "top neighbor 1.77"):
        assert shown in panel.charts[0].drawing
    assert "PNG" not in panel.charts[0].drawing


def test_baselines_of_another_split_are_not_compared(tmp_path: Path) -> None:
    run = read_run(whole(tmp_path / "run"))
    assert (
        not loss_section(replace(run, log=[baselines("validation"), *run.log]), "name", "run")
        .panels[0]
        .tables
    )
