"""Few labels from Python: the same results as the command, with a pool and a method of choice."""

from typing import Any

import pytest

import isopix
from isopix.api import few_labels
from isopix.cli import low_data
from isopix.data.dataset import load_dataset
from tests.unit.api.conftest import Copy, assert_same_files, cli
from tests.unit.data.refusal import refusal

CPU: dict[str, Any] = {"device": "cpu"}
FEW = ["steps=2", "evaluate_every=1", "batch_size=8", "num_test_images=16", "evaluate_images=16"]


@pytest.fixture
def one_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes by one L2 penalty instead of nine."""
    monkeypatch.setattr(few_labels, "LARGER_L2", (0.1,))


@pytest.mark.usefixtures("one_penalty")
def test_low_data(copy_of: Copy) -> None:
    one, other = copy_of("ar", "one"), copy_of("ar", "other")
    cli("low-data", one, "--labels", 1, 2, "--subsets", 2, "--device", "cpu")
    found = isopix.low_data(other, labels=(1, 2), subsets=2, **CPU)
    assert_same_files(one / "low-data", other / "low-data")
    assert found.results.keys() == {"trained", "untrained", "raw pixels", "raw pixels, PCA"}
    assert [len(each.errors) for each in found.results["trained"]] == [2, 2]
    assert "needs finetune_steps above 0" in refusal(lambda: isopix.low_data(other, overrides=["steps=1"]))


@pytest.mark.usefixtures("one_penalty")
def test_default_labels_that_a_class_does_not_have_are_left_out(
    copy_of: Copy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = copy_of("ar", "run")
    data = isopix.load(run, device="cpu").loaded.recipe.data
    train = load_dataset(data).train
    assert train.labels is not None
    counts = train.labels.bincount().tolist()
    fewest, most = min(counts), max(counts)
    monkeypatch.setattr(few_labels, "LABELS", (1, fewest, fewest + 1))
    found = isopix.low_data(run, subsets=1, **CPU)
    assert [each.labels_per_class for each in found.results["trained"]] == [1, fewest]
    text = f"{fewest + 1} labels per class are left out: class {counts.index(fewest)} has {fewest} training"
    assert text in caplog.text
    monkeypatch.setattr(few_labels, "LABELS", (most + 1,))
    assert f"{most + 1} images per class requested" in refusal(lambda: isopix.low_data(run, subsets=1, **CPU))


@pytest.mark.usefixtures("one_penalty")
def test_low_data_has_a_pool_and_counts_the_features(
    copy_of: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = copy_of("ar", "one"), copy_of("ar", "other")
    low_data.low_data(one, labels=[1], subsets=1, method="adam", pool="grid2", device="cpu")
    out = " ".join(capsys.readouterr().out.split())
    found = isopix.low_data(other, labels=(1,), subsets=1, method="adam", pool="grid2", **CPU)
    assert_same_files(one / "low-data", other / "low-data")
    assert (found.record["pool"], found.record["method"]) == ("grid2", "adam")
    width = isopix.load(other, device="cpu").loaded.recipe.model.width
    assert found.results["trained"][0].num_features == 4 * width
    assert "pool grid2" in out
    for name in ("raw pixels", "raw pixels, PCA"):
        title = f"{name} ({found.results[name][0].num_features} features)"
        assert title in out
        assert f"{title}, layer" not in out


@pytest.mark.usefixtures("one_penalty")
def test_low_data_with_fine_tuning(copy_of: Copy) -> None:
    found = isopix.low_data(
        copy_of("ar", "run"),
        labels=(2,),
        subsets=1,
        finetune_steps=1,
        overrides=FEW[1:],
        **CPU,
    )
    assert [each.labels_per_class for each in found.results["fine-tuned"]] == [2]
