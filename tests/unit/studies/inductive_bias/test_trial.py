"""The plan of a study, and trials that give the same numbers when stopped, diverging or failing."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isopix.probing.probe import evaluate_probe
from isopix.probing.splits import FeatureSplits
from isopix.runs.load import load_run
from isopix.runs.state import read_environment
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import exclusive_lock
from isopix.storage.run_folder import RunFolder
from isopix.studies.inductive_bias import trial
from isopix.studies.inductive_bias.evidence import correct_images
from isopix.studies.inductive_bias.figures import Example
from isopix.studies.inductive_bias.study import BiasStudy
from isopix.studies.inductive_bias.trial import BiasTrial
from isopix.studies.study import StudyPlan
from isopix.studies.trial import run_trial

SMALL = ("steps=2", "width=16", "data.rows=8", "data.cols=8")


def plan(pattern: str = "conv-*-1", seeds: int = 1, *words: str, data: str = "digits") -> StudyPlan:
    return BiasStudy.planned("tiny", data=data, pattern=pattern, seeds=seeds, settings=(*SMALL, *words))


def test_trials_are_ordered_by_seed_and_cost_and_settings_reach_every_recipe() -> None:
    specs = BiasStudy(Path("nowhere"), plan("conv-pix2vec-3,conv-p*-1", 2, "lr=0.003")).trials
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
    with BiasStudy.create(out, plan()) as study:
        with (
            pytest.raises(ValueError, match="is in use by process"),
            BiasStudy.create(out, plan("mixer-*-1")),
        ):
            pass
        assert BiasStudy.open(out).plan == study.plan
    with BiasStudy.create(out, plan("mixer-pix2vec-1", 2)) as grown:
        assert len(grown.trials) == 8
    assert BiasStudy.open(out).plan == grown.plan
    with pytest.raises(ValueError, match=r"has settings .*steps=2.*, not .*steps=3"):
        BiasStudy.from_plan(out, replace(grown.plan, settings=("steps=3",)))
    assert BiasStudy.from_plan(out, replace(grown.plan, data=None)).plan.data == "digits"
    (out / "study.json").unlink()
    with pytest.raises(ValueError, match="is not empty; choose another --out"):
        BiasStudy.from_plan(out, plan())


def test_a_study_goes_on_elsewhere_from_its_results_alone(tmp_path: Path) -> None:
    """The images may lie elsewhere, and must be the same; the run folders are not needed."""
    here, there = tmp_path / "here", tmp_path / "there"
    with BiasStudy.create(here, plan("conv-pix2vec-1")) as study:
        (spec,) = study.trials
        run_trial(replace(spec, probe_images={"train": 100, "validation": 50, "test": 50}), "cpu", 1)
        assert spec.read().status == "done"
    shutil.copytree(here / "results", there / "results")
    shutil.copyfile(here / "study.json", there / "study.json")
    planned = plan("conv-pix2vec-*")
    with BiasStudy.create(there, planned) as moved:
        assert [each.name for each in moved.missing(planned)] == ["conv-pix2vec-3-seed-0"]
        moved.require_images()
    with (
        BiasStudy.create(there, replace(planned, data="translated-digits")) as moved,
        pytest.raises(ValueError, match="other images than those of conv-pix2vec-1-seed-0"),
    ):
        moved.require_images()


Make = Callable[..., BiasTrial]
STOPPED = ["steps=12", "width=8", "data.rows=8", "data.cols=8", "batch_size=16", "evaluate_every=12"]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make(name, *settings)`: a convolution on digits, in a study of that name."""

    def spec(name: str, *settings: str) -> BiasTrial:
        words = [*STOPPED, "checkpoint_every=4", *settings]
        planned = BiasStudy.planned("tiny", data="digits", pattern="conv-pix2vec-1", seeds=1, settings=words)
        with BiasStudy.create(tmp_path / name, planned) as study:
            (made,) = study.trials
        return replace(made, probe_images={"train": 200, "validation": 100, "test": 100})

    return spec


def test_a_trial_is_a_run_with_a_probe_and_a_result_file(make: Make) -> None:
    spec = make("whole")
    run_trial(spec, "cpu", 1)
    found, run = spec.read(), RunFolder.open(spec.run)
    assert found.status == "done"
    assert (found.trial.architecture, found.trial.seed) == (("conv", "pix2vec", 1), 0)
    assert set(found.trial.probes) == {"mean", "grid4"}
    for pool, width in (("mean", 8), ("grid4", 128)):
        probes = found.trial.probes[pool]
        assert len(probes.network.test_accuracies) == len(probes.untrained.test_accuracies) == 2
        for layer, accuracy in enumerate(probes.network.test_accuracies):
            assert correct_images(probes.network, layer).mean() == pytest.approx(accuracy)
        for baseline in probes.baselines.values():
            assert correct_images(baseline, 0).mean() == pytest.approx(baseline.test_accuracy)
        assert (probes.pixel_components is None) == (width >= 192)
    assert found.environment["data"] == read_environment(run).data
    loss = found.metrics["loss_measurement"]
    assert loss["split"] == "validation"
    assert loss["baselines"]["unigram"] > 0


def test_pixels_are_reduced_to_as_many_features_as_each_pool_has(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths, evaluate = list[int](), evaluate_probe

    def spy(splits: FeatureSplits, *args: Any, **kwargs: Any) -> Any:
        widths.append(splits.train.features.shape[2])
        return evaluate(splits, *args, **kwargs)

    monkeypatch.setattr(trial, "evaluate_probe", spy)
    run_trial(make("whole", "width=3"), "cpu", 1)
    # All pixels; then under each pool the trained and the untrained network, and as many components.
    assert widths == [192, 3, 3, 3, 48, 48, 48]


def test_an_example_has_the_encoding_of_red(make: Make) -> None:
    spec = make("whole", "width=6")
    run_trial(spec, "cpu", 1)
    found = Example("conv", 1, read_arrays(spec.example))
    loaded = load_run(spec.run, device=torch.device("cpu"))
    red = loaded.network.state_dict()["backbone.stem.tables.0.weight"].double()
    red = red / red.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(found.encoding.similarity, red @ red.T, atol=2e-3)
    assert len(found.pictures("original")) == 6


def test_a_resumed_trial_has_the_same_numbers(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, spec = make("whole"), make("stopped")
    run_trial(whole, "cpu", 1)
    asked = iter([False] * 5 + [True] * 100)
    monkeypatch.setattr(trial, "orphaned", lambda: next(asked))
    run_trial(spec, "cpu", 1)
    assert spec.read().status == "not run"
    assert RunFolder(spec.run).has_checkpoints
    monkeypatch.undo()
    run_trial(spec, "cpu", 1)
    assert spec.read().metrics == whole.read().metrics


def test_after_a_rate_that_diverges_the_next_one_is_tried_and_none_again(make: Make) -> None:
    spec = replace(make("diverging"), lrs=(1e30, 0.01))
    run_trial(spec, "cpu", 1)
    found = spec.read()
    tried = [(each.lr, each.status) for each in found.lr_trials]
    assert tried == [(1e30, "non-finite"), (0.01, "completed")]
    assert (found.status, found.run) == ("done", f"{spec.run.name}-lr-0.01")
    log = spec.run / "log.jsonl"
    before = log.stat().st_mtime_ns
    run_trial(replace(spec, lrs=(1e30,)), "cpu", 1)
    found = spec.read()
    assert (found.status, log.stat().st_mtime_ns) == ("failed", before)
    assert found.reason == "the loss diverged at every learning rate from 1e+30 down to 1e+30"


def test_a_trial_that_another_process_runs_is_not_run(make: Make) -> None:
    spec = make("locked")
    with exclusive_lock(spec.result.parent, "trial", name=f"{spec.name}.lock"):
        run_trial(spec, "cpu", 1)
    assert spec.read().status == "failed"
    assert "in use by process" in spec.read().reason


def test_a_failure_is_written_and_tried_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = make("failing")

    def broken(*given: object) -> None:
        raise RuntimeError("CUDA out of memory.\nTried to allocate")

    monkeypatch.setattr(trial, "measure", broken)
    run_trial(spec, "cpu", 1)
    assert (spec.read().status, spec.read().reason) == ("failed", "CUDA out of memory.")
    assert "in broken" in spec.read().traceback
    monkeypatch.undo()
    run_trial(spec, "cpu", 1)
    assert (spec.read().status, spec.read().reason) == ("done", "")
