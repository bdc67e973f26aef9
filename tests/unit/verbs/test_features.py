"""`isopix features`: each row of a file has the features of the image that it names."""

from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

import isopix
from isopix.probing import features
from tests.tiny_runs import CPU, Copy


@pytest.fixture
def labeled(photos: Path, tmp_path: Path) -> Path:
    """The photos in folders of splits and classes, one of them in both classes."""
    for number, file in enumerate(sorted(photos.glob("*.png"))):
        folder = tmp_path / "labeled" / ("test" if number % 3 == 0 else "train") / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        file.rename(folder / f"={file.name}")
    copy(tmp_path / "labeled/train/a/=02.png", tmp_path / "labeled/train/b")
    return tmp_path / "labeled"


def read(path: Path) -> dict[str, np.ndarray]:
    """The columns of a file, features as [N ...]."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return dict(arrays)
    table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    columns = {name: np.array(table[name].to_pylist()) for name in table.column_names}
    numbers = [columns.pop(name) for name in table.column_names if name.startswith("features_")]
    return columns | ({"features": np.stack(numbers, 1)} if numbers else {})


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv"])
def test_a_row_has_the_features_of_its_file(
    copy_of: Copy, labeled: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "eval_batch_size", lambda positions, device: 5)
    model, out = isopix.load(copy_of("bert", "run"), **CPU), labeled.parent / "new" / f"out{suffix}"
    result = isopix.features(model, data=labeled, out=out, layer=0, pool="grid2")
    found = read(out)
    files = [Path(each.lstrip("'")) for each in found["file"]]
    assert len(files) == result.num_images == 13  # a copy of 11 is not in test
    expected = model.features(files, 0, pool="grid2").numpy()
    np.testing.assert_allclose(found["features"], expected, rtol=1e-6)
    assert found["label"].tolist() == [each.parent.name for each in files]
    assert found["split"].tolist() == [each.parent.parent.name for each in files]
    hashes = {each.name: [] for each in files}
    for file, number in zip(files, found["hash"].tolist(), strict=True):
        hashes[file.name].append(number)
    assert hashes["=02.png"][0] == hashes["=02.png"][1]
    assert len({*found["hash"]}) == 12


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_all_positions_are_a_map(copy_of: Copy, photos: Path, suffix: str) -> None:
    model, out = isopix.load(copy_of("ar", "run"), **CPU), photos.with_suffix(suffix)
    result = isopix.features(model, data=photos, out=out, pool="flatten", layer=1)
    found = read(out)["features"]
    assert found.shape == (13, *result.shape) == (13, 8, 8, 16)
    [tokens] = model.forward_intermediates(sorted(photos.glob("*.png")), [1])
    torch.testing.assert_close(torch.from_numpy(found)[:, 3, 5].float(), tokens[:, 3 * 8 + 5].detach())


def test_images_of_the_run_have_its_splits_and_the_layer_of_its_probe(copy_of: Copy, tmp_path: Path) -> None:
    run = copy_of("ar", "run")
    options: dict[str, Any] = {"out": tmp_path / "out.npz", **CPU}
    assert isopix.features(run, **options).layer == 1  # of a network of depth 1 the middle is the last
    best = isopix.probe(run, layer=0, method="ridge", **CPU).best.layer
    assert isopix.features(run, **options).layer == best == 0
    splits = read(tmp_path / "out.npz")["split"].tolist()
    measured = isopix.features(run, **options).measurements
    assert {each.split: each.images for each in measured} == {name: splits.count(name) for name in splits}
    assert {*splits} == {"train", "validation", "test"}
