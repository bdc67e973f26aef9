"""The scaling study at a micro scale: equal FLOPs, outcomes in files, laws, figures and page."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isopix.recipes.cost import training_flops
from isopix.studies.scaling import speed
from isopix.studies.scaling import study as scaling
from isopix.studies.scaling.baselines import BaselinesStudy
from isopix.studies.scaling.results import NetworkOutcome, ScalingResult
from isopix.studies.scaling.speed import SpeedStudy
from isopix.studies.scaling.study import SCALES, IsoFLOPScale, ScalingStudy, ScalingTrial, Size
from isopix.studies.trial import run_trial

SIZES = tuple(Size(width, 1) for width in (8, 12, 16, 24))
MICRO = IsoFLOPScale(["igpt.tiny"], dict.fromkeys((1e8, 2e8, 4e8), SIZES), 8, batch_size=16, seeds=1)


@pytest.mark.parametrize("scale", SCALES)
def test_networks_of_a_budget_take_as_many_flops(scale: str) -> None:
    for trial in ScalingStudy(Path("nowhere"), ScalingStudy.planned(scale, data="cifar10", seeds=1)).trials:
        assert training_flops(trial.recipe) == pytest.approx(trial.where.budget, rel=0.05)
        assert trial.recipe.model.width % trial.recipe.model.block.heads == 0


def test_a_study_has_laws_figures_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scaling.SCALES, "tiny", MICRO)
    monkeypatch.setattr(scaling, "PROBED", {"train": 200, "validation": 100, "test": 100})
    words = ("num_colors=16", "evaluate_images=32")
    planned = ScalingStudy.planned("tiny", data="digits", settings=words)
    with ScalingStudy.create(tmp_path / "out", planned) as study:
        [trial] = [each for each in study.trials if each.name == "igpt.tiny-1e08-8x1-seed-0"]
        run_trial(trial, "cpu", 1)
        one = trial.read()
        for each in study.trials:
            width, budget = each.where.size.width, each.where.budget
            bend = (np.log(width) - np.log(budget / 1e7)) ** 2 / 10
            own = replace(one, budget=budget, size=str(each.where.size), parameters=12 * width**2)
            each.write(replace(own, loss=1 + bend, error=0.5 + bend))
    found = study.write_up()
    assert one.status == "done"
    assert one.tokens == trial.recipe.train.steps * 16 * 64
    assert one.parameters == 12 * 8 * 8 + 2 * 8  # matrices of the block, and two norms
    assert [(law.measure, len(law.optima)) for law in found.laws] == [("loss", 3), ("error", 3)]
    assert (tmp_path / "out" / "figures" / "profiles.png").is_file()
    again = ScalingResult.read(tmp_path / "out" / "report.html")
    assert again.laws == found.laws


def test_steps_follow_from_the_budget() -> None:
    study = ScalingStudy(Path("nowhere"), ScalingStudy.planned("tiny", data="cifar10", settings=["steps=5"]))
    with pytest.raises(ValueError, match="steps follow from the budgets of FLOPs"):
        _ = study.trials
    study = ScalingStudy(Path("nowhere"), replace(study.plan, settings=(), cells=("igpt.tiny-1e08-9x1",)))
    with pytest.raises(ValueError, match=r"trials of another version: igpt\.tiny-1e08-9x1"):
        _ = study.trials


def test_baselines_have_equal_flops_and_a_figure(tmp_path: Path) -> None:
    planned = BaselinesStudy.planned("tiny", data="digits", seeds=2)
    with BaselinesStudy.create(tmp_path / "out", planned) as study:
        for each in study.trials:
            network = isinstance(each, ScalingTrial)
            name = each.where.recipe if network else each.cell
            flops = each.training_flops
            assert not network or flops == pytest.approx(each.where.budget, rel=0.05)
            each.write(NetworkOutcome(status="done", recipe=name, flops=flops, error=0.5))
        [pixels] = [each for each in study.trials if each.name == "raw pixels-seed-0"]
        run_trial(pixels, "cpu", 1)
    found = study.write_up()
    assert 0.05 < found.trials[pixels.name].error < 0.2  # of digits at 32 x 32
    assert [len(same) for same in found.points()["patches.mae"].values()] == [2, 2]
    assert found.points()["raw pixels"][0.0] == [1 - found.trials[pixels.name].error, 0.5]
    assert (tmp_path / "out" / "figures" / "methods.png").is_file()


def test_a_speed_run_has_minutes_and_accuracy_of_all_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("data.size: 8", "depth: 1", "width: 16", "num_colors: 16", "train.batch_size: 16")
    for name, steps in {"2-modern.tiny": 3, "10-igpt.tiny-more": 2}.items():
        settings = "\n".join((*words, f"train.steps: {steps}"))
        (tmp_path / f"{name}.yaml").write_text(f"# Of {steps} steps.\n{settings}\n")
    records = {file.stem: file for file in sorted(tmp_path.glob("*.yaml"))}
    monkeypatch.setattr(speed, "RECORDS", records)
    planned = SpeedStudy.planned("tiny", data="digits")
    with SpeedStudy.create(tmp_path / "out", planned) as study:
        [first] = [each for each in study.trials if each.name == "10-igpt.tiny-more-seed-1"]
        run_trial(first, "cpu", 1)
        found = first.read()
        for each in study.trials:
            slow, seed = each.recipe.train.steps == 3, each.recipe.train.seed
            each.write(
                replace(
                    found,
                    recipe=each.cell,
                    seconds=180 if slow else 60,
                    error=0.52 + 0.01 * seed,
                    untrained_error=0.6 if slow else 0.5,
                )
            )
    assert (found.status, found.flops) == ("done", training_flops(first.recipe))
    assert found.untrained_error is not None
    assert found.untrained_error != found.error
    table = study.write_up().tables()[0]
    assert table.rows == [
        (
            "2-modern.tiny",
            "Of 3 steps.",
            f"{found.flops:.3g}",
            "3.00 ± 0.00",
            "",
            "46.00 ± 1.58",
            "40.00 ± 0.00",
            "5",
            "reached",
        ),
        (
            "10-igpt.tiny-more",
            "Of 2 steps.",
            f"{found.flops:.3g}",
            "1.00 ± 0.00",
            "0.33",
            "46.00 ± 1.58",
            "50.00 ± 0.00",
            "5",
            "reached untrained",
        ),
    ]
    first.fail("killed")
    assert [row[-1] for row in study.write_up().tables()[0].rows] == ["reached", "seeds are missing"]


@pytest.mark.parametrize("name", speed.RECORDS)
def test_a_record_is_of_cifar10_and_has_no_labels_in_pre_training(name: str) -> None:
    recipe = SpeedStudy(Path("nowhere"), SpeedStudy.planned("tiny", pattern=name)).trials[0].recipe
    assert recipe.data.source == "cifar10"
    assert recipe.finetune is None
    assert name.partition("-")[2].startswith(recipe.name)
