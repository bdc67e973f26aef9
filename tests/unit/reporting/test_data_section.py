"""The data of a run on its page: images by class, and their number by class and split."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.data.dataset import ImageDataset, load_dataset
from isopix.data.splits import Split
from isopix.recipes import registry
from isopix.reporting.run_record import read_run
from isopix.reporting.run_sections import data_section
from isopix.runs.pretrain import save_data_sample
from tests.unit.reporting.cases import bare


@pytest.fixture(scope="module")
def digits() -> ImageDataset:
    return load_dataset(registry.find("igpt.digits").data)


def test_images_and_counts_are_those_of_the_data(tmp_path: Path, digits: ImageDataset) -> None:
    run = bare(tmp_path / "run", registry.find("igpt.digits"))
    save_data_sample(run, digits)
    found = read_run(run)
    assert found.data is not None
    assert found.data.labels == sorted(found.data.labels)
    assert np.bincount(found.data.labels).tolist() == [6] * 10
    for image, label in zip(found.data.images, found.data.labels, strict=True):
        same = (digits.train.images == image).flatten(1).all(1)
        assert label in digits.train.labels[same]
    section = data_section(found)
    assert section is not None
    rows = [row.cells for row in section.panels[0].tables[0].rows]
    splits = [np.asarray(each.labels) for each in (digits.train, digits.validation, digits.test)]
    assert rows[7] == ["7", *(str(int((labels == 7).sum())) for labels in splits)]
    assert rows[-1] == ["all", *(f"{len(labels):,}" for labels in splits)]
    assert section.panels[0].charts[0].caption.startswith("60 training images of digits, by class, at the")


def test_images_without_labels_are_shown_without_a_table(tmp_path: Path) -> None:
    images = torch.randint(0, 256, (5, 3, 4, 4), dtype=torch.uint8)
    split = Split(images)
    data = ImageDataset("photos", (), split, split, split, "x")
    run = bare(tmp_path / "run", registry.find("igpt.digits"))
    save_data_sample(run, data)
    section = data_section(read_run(run))
    assert section is not None
    [panel] = section.panels
    assert not panel.tables
    assert "by class" not in panel.charts[0].caption


def test_large_images_are_fewer(tmp_path: Path) -> None:
    split = Split(torch.zeros(20, 3, 224, 224, dtype=torch.uint8))
    run = bare(tmp_path / "run", registry.find("igpt.digits"))
    save_data_sample(run, ImageDataset("photos", (), split, split, split, "x"))
    found = read_run(run).data
    assert found is not None
    assert len(found.images) == 2**21 // (3 * 224 * 224)


@pytest.mark.parametrize(
    "damage",
    [
        lambda arrays: arrays.pop("counts"),
        lambda arrays: arrays.update(images=arrays["images"].astype(float)),
        lambda arrays: arrays.update(labels=arrays["labels"] + 5),
        lambda arrays: arrays.update(classes=arrays["classes"][1:]),
    ],
)
def test_a_wrong_file_is_listed_and_not_shown(
    tmp_path: Path, digits: ImageDataset, damage: Callable[[dict[str, np.ndarray]], object]
) -> None:
    run = bare(tmp_path / "run", registry.find("igpt.digits"))
    save_data_sample(run, digits)
    arrays = dict(np.load(run.data_sample))
    damage(arrays)
    np.savez(run.data_sample, **arrays)
    found = read_run(run)
    assert data_section(found) is None
    assert found.problems[0].startswith("data-sample.npz: ")
