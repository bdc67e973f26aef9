"""`isopix probe`: its records, its tables, and what is chosen by default."""

from pathlib import Path
from typing import Any

import pytest
import torch

import isopix
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


def test_settings_of_the_data_apply_to_every_measurement(copy_of: Copy, photos: Path) -> None:
    run, options = copy_of("ar", "run"), {"data": photos, "split": "validation", "pictures": 0, **CPU}
    few, many = (isopix.neighbors(run, f"holdout={share}", **options).num_images for share in (0.1, 0.4))
    assert few < many
    with pytest.raises(ValueError, match="this model reads 8 x 8"):
        isopix.evaluate(run, "rows=16", data=photos, **CPU)


def test_a_setting_of_the_data_names_its_labels(copy_of: Copy, photos: Path) -> None:
    lines = [f"{each.name},{'odd' if int(each.stem) % 2 else 'even'}" for each in photos.glob("[01]*.png")]
    (photos / "metadata.csv").write_text("\n".join(["file_name,parity", *lines, "copy.png,odd"]))
    run, words = copy_of("ar", "run"), ["data.label_column=parity", "data.holdout=0.3"]
    found = isopix.probe(run, *words, data=photos, **RIDGE)
    assert "2 classes" in str(found)
    assert (
        isopix.probe(run, *words, labels=[1], subsets=1, data=photos, **RIDGE).measurement.classes["test"]
        == 2
    )
    with pytest.raises(ValueError, match=r"probe needs labels; .*data.label_column=NAME"):
        isopix.probe(run, "data.holdout=0.3", data=photos, **RIDGE)


def test_options_of_few_labels_and_of_all_exclude_each_other(copy_of: Copy) -> None:
    run = copy_of("ar", "run")
    for settings, given, line in (
        ((), {"subsets": 2}, "subsets needs labels"),
        ((), {"finetune_steps": 2}, "finetune_steps needs labels"),
        ((), {"labels": [2], "concat": 1}, "concat does not go with labels"),
        ((), {"labels": [9000]}, "9,000 images per class requested"),
        (("steps=1",), {"labels": [2]}, "steps"),
    ):
        with pytest.raises(ValueError, match=line):
            isopix.probe(run, *settings, **given, **RIDGE)


def test_published_errors_are_shown_for_the_numbers_that_were_tried(copy_of: Copy) -> None:
    found = isopix.probe(copy_of("ar", "run"), labels=[1], subsets=1, **RIDGE)
    total = found.results["trained"][0].num_train_images
    published = LowDataResult(**{**vars(found), "published": {"theirs": {total: (26.8, 1.5), 7: (1.0, 1.0)}}})
    [table] = published.tables()
    assert table.rows[-1] == ("theirs, published", "26.8% ± 1.5%")
