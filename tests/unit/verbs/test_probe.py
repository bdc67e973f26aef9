"""`isopix probe` and `isopix low-data`: their record, their tables, and what is chosen by default."""

from pathlib import Path
from typing import Any

import pytest
import torch

import isopix
from isopix.data.dataset import load_dataset
from isopix.probing import low_data
from isopix.probing.results import LowDataResult
from tests.tiny_runs import CPU, Copy

RIDGE: dict[str, Any] = {"method": "ridge", **CPU}


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


def test_a_setting_of_the_data_names_its_labels(copy_of: Copy, photos: Path) -> None:
    lines = [f"{each.name},{'odd' if int(each.stem) % 2 else 'even'}" for each in photos.glob("[01]*.png")]
    (photos / "metadata.csv").write_text("\n".join(["file_name,parity", *lines, "copy.png,odd"]))
    run, words = copy_of("ar", "run"), ["data.label_column=parity", "data.holdout=0.3"]
    found = isopix.probe(run, *words, data=photos, **RIDGE)
    assert "2 classes" in str(found)
    with pytest.raises(ValueError, match=r"probe needs labels; .*data.label_column=NAME"):
        isopix.probe(run, "data.holdout=0.3", data=photos, **RIDGE)


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
