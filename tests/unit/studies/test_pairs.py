"""Two runs are compared image by image, on images of the same content, for all that both have."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import isopix
from isopix.data.load import load_dataset
from isopix.runs.image_lists import load_test_images
from tests.tiny_runs import CPU, TINY, cli


@pytest.fixture(scope="module")
def runs(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fine-tuned runs, and one whose test images overlap with theirs."""
    out = tmp_path_factory.mktemp("pairs")
    for name, *settings in (("one", "lr=0.03"), ("other", "lr=0.01", "finetune.generative_weight=0.5")):
        words = ("finetune.patience=null", "steps=20", "data.limit=null", *settings)
        cli("finetune", pristine / "ar", "--out", out / name, *words)
    other = {"depth=1": "depth=2"}
    settings = (*(other.get(word, word) for word in TINY), "data.seed=1", "data.limit=null")
    cli("pretrain", "igpt.digits", *settings, "--out", out / "redrawn", "--device", "cpu")
    return out


def half_width(one: np.ndarray, other: np.ndarray) -> float:
    low, high = stats.ttest_rel(one, other).confidence_interval()
    return (high - low) / 2


def test_numbers_are_those_of_each_run_and_intervals_those_of_scipy(runs: Path) -> None:
    one, other = (runs / name for name in ("one", "other"))
    found = isopix.compare(one, other, **CPU)
    loss, probe, accuracy = found.numbers
    nats = [isopix.score(each, **CPU).scores["nats_per_code"].numpy() for each in (one, other)]
    assert (loss.first, loss.second) == pytest.approx([each.mean() for each in nats])
    assert loss.half_width == pytest.approx(half_width(*nats))
    probed = [isopix.probe(each, method="ridge", **CPU).accuracy for each in (one, other)]
    assert [probe.first, probe.second] == probed
    correct = [load_test_images(each).correct.double().numpy() for each in (one, other)]
    assert (accuracy.first, accuracy.second) == pytest.approx([each.mean() for each in correct])
    assert accuracy.half_width == pytest.approx(half_width(*correct))
    only = tuple(int((a > b).sum()) for a, b in (correct, correct[::-1]))
    assert accuracy.only == only
    assert accuracy.p == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue)
    assert found.num_images == len(correct[0]) == accuracy.num_images
    assert set(found.settings) == {"train.optimizer.lr", "finetune.generative_weight"}


def test_runs_of_other_splits_are_compared_on_common_images(pristine: Path, runs: Path) -> None:
    own, redrawn = (isopix.load(path).loaded.recipe.data for path in (runs / "one", runs / "redrawn"))
    tests = [set(load_dataset(each).test.hashes.tolist()) for each in (own, redrawn)]
    found = isopix.compare(runs / "one", runs / "redrawn", **CPU)
    assert 0 < found.num_images == len(tests[0] & tests[1]) < len(tests[0])
    assert [each.name.partition(",")[0] for each in found.numbers] == ["test loss", "ridge-probe accuracy"]
    assert any("labels seen in training" in each for each in found.warnings)


def test_what_one_run_cannot_be_measured_for_is_a_note(pristine: Path) -> None:
    pair = pristine / "ar", pristine / "bert"
    found = isopix.compare(*pair, **CPU)
    assert [each.name for each in found.numbers] == ["ridge-probe accuracy, %"]
    assert "no loss: the runs differ in what they predict, or in their masks" in found.warnings
    with pytest.raises(ValueError, match=r"no loss: .*; no probe: .* two classes; .*; no fine-tuned"):
        isopix.compare(*pair, limit=1, **CPU)
