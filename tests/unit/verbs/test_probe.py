"""`isopix probe` and `isopix low-data`: their record, their tables, and what is chosen by default."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import isopix
from isopix.data.dataset import DataConfig, load_dataset
from isopix.probing import low_data
from isopix.probing.config import ProbeConfig
from isopix.probing.features import extract_features
from isopix.probing.methods import L2_PENALTY, RidgeProbe
from isopix.probing.probe import evaluate_probe
from isopix.probing.results import LowDataResult
from isopix.probing.splits import FeatureSplit, FeatureSplits
from tests.tiny_runs import CPU, Copy

RIDGE: dict[str, Any] = {"method": "ridge", **CPU}
BASELINES = ["untrained", "raw pixels", "raw pixels, PCA", "shuffled labels"]


@pytest.mark.parametrize(("name", "masks"), [("ar", 0), ("bert", 2)])
def test_the_tables_of_a_probe_have_every_layer(copy_of: Copy, name: str, masks: int) -> None:
    run = copy_of(name, "run")
    found = isopix.probe(run, concat=2, refit_on_validation=True, mask_ensemble=masks, seed=3, **RIDGE)
    assert found.path.parent == run / "probes"
    assert list(found.baselines) == BASELINES
    assert found.config == ProbeConfig(
        method="ridge", pool="mean", concat=2, refit_on_validation=True, mask_ensemble=masks, seed=3
    )
    layers, baselines = found.tables()
    depth = len(found.network.layers)
    assert [row[0].split()[0] for row in layers.rows[:depth]] == [str(layer) for layer in range(depth)]
    assert [row[0] for row in layers.rows if row[0].endswith("*")] == [f"{found.best.layer} *"]
    assert len(layers.rows) == depth + 2
    assert ("single mask" in layers.columns) == bool(masks)
    assert layers.columns[-1] == L2_PENALTY
    assert f"{found.accuracy:.1%}" in layers.text()
    assert len(baselines.rows) == len(BASELINES) + 2
    assert found.measurement.baselines == found.baseline_accuracies
    assert len(list(found.figures())) == 1


@pytest.mark.parametrize("read", [{}, {"pool": "max", "features": "residual"}])
def test_a_probe_is_the_fit_to_the_features_with_its_seed(pristine: Path, read: dict[str, Any]) -> None:
    data = load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=100))
    network, device = isopix.load(pristine / "ar", **CPU).network, torch.device("cpu")
    parts = (data.train, data.validation, data.test)
    splits = FeatureSplits(
        *(FeatureSplit(extract_features(network, each.images, **read), each.labels) for each in parts)
    )
    given = {"method": "ridge", "seed": 1, **read}
    found = isopix.probe(isopix.load(pristine / "ar", **CPU), data=data, **given)
    assert found.network == evaluate_probe(splits, RidgeProbe(), ProbeConfig(**given), device=device).result


def test_a_callers_default_of_float64_changes_no_number_and_stays(pristine: Path) -> None:
    """The untrained network, the PCA and the model that is loaded depend on PyTorch's default."""
    found = []
    try:
        for default in (torch.float32, torch.float64):
            torch.set_default_dtype(default)
            model = isopix.load(pristine / "ar", **CPU)
            found.append(isopix.probe(model, limit=60, layer=1, **RIDGE))
            assert torch.get_default_dtype() == default
    finally:
        torch.set_default_dtype(torch.float32)
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    assert (found[0].network, found[0].baselines) == (found[1].network, found[1].baselines)


def test_settings_are_those_of_the_method_and_others_are_another_file(copy_of: Copy) -> None:
    run, words = copy_of("ar", "run"), ["neighbors_grid=[3, 5]", "temperature=0.5"]
    found = isopix.probe(run, *words, method="knn", **CPU)
    assert found.method == {"kind": "knn", "neighbors_grid": [3, 5], "temperature": 0.5}
    assert {each.selected["number of neighbors"] for each in found.network.layers} <= {3, 5}
    other = isopix.probe(run, "temperature=0.1", method="knn", **CPU)
    assert other.path != found.path
    assert isopix.probe(run, *words, method="knn", **CPU).path == found.path


def test_the_table_of_low_data_has_every_method(copy_of: Copy) -> None:
    run = copy_of("ar", "run")
    words = ["evaluate_every=1", "batch_size=8", "num_test_images=16", "evaluate_images=16"]
    options = {"labels": [1, "50%"], "subsets": 2, "pool": "grid2", "finetune_steps": 1}
    found = isopix.low_data(run, *words, **options, **RIDGE)
    assert list(found.results) == ["trained", *BASELINES[:3], "fine-tuned"]
    trained = found.results["trained"]
    assert [(each.labels_per_class, len(each.errors)) for each in trained] == [(1, 2), ("50%", 2)]
    saved, errors = found.record()["results"]["trained"][0], trained[0].errors
    assert (saved["mean"], saved["std"]) == pytest.approx((np.mean(errors), np.std(errors, ddof=1)))
    width = isopix.load(run, device="cpu").loaded.recipe.model.width
    assert trained[0].num_features == 4 * width
    [table] = found.tables()
    assert len(table.rows) == len(found.results)
    assert "pool grid2" in table.caption


def test_default_labels_that_a_class_does_not_have_are_left_out(
    copy_of: Copy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = copy_of("ar", "run")
    counts = load_dataset(isopix.load(run, device="cpu").loaded.recipe.data).train.labels.bincount().tolist()
    fewest, most = min(counts), max(counts)
    monkeypatch.setattr(low_data, "LABELS", (1, fewest, fewest + 1))
    found = isopix.low_data(run, subsets=1, **RIDGE)
    assert [each.labels_per_class for each in found.results["trained"]] == [1, fewest]
    assert f"{fewest + 1} labels per class are left out: class {counts.index(fewest)} has" in caplog.text
    monkeypatch.setattr(low_data, "LABELS", (most + 1,))
    with pytest.raises(ValueError, match=f"{most + 1} images per class requested"):
        isopix.low_data(run, subsets=1, **RIDGE)
    with pytest.raises(ValueError, match="needs finetune_steps above 0"):
        isopix.low_data(run, "steps=1")


def test_published_errors_are_shown_for_the_numbers_that_were_tried(copy_of: Copy) -> None:
    found = isopix.low_data(copy_of("ar", "run"), labels=[1], subsets=1, **RIDGE)
    total = found.results["trained"][0].num_train_images
    published = LowDataResult(**{**vars(found), "published": {"theirs": {total: (26.8, 1.5), 7: (1.0, 1.0)}}})
    [table] = published.tables()
    assert table.rows[-1] == ("theirs, published", "26.8% ± 1.5%")
