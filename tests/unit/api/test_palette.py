"""Palettes from Python are those of the command line."""

from pathlib import Path

import numpy as np
import torch

import isopix
from tests.unit.api.conftest import assert_same_files, cli
from tests.unit.data.refusal import refusal


def test_fit_and_show(tmp_path: Path) -> None:
    size = ["--size", 8, 8, "--limit", 50]
    (tmp_path / "one").mkdir()
    cli("palette", "fit", "--data", "digits", "--colors", 5, "--out", tmp_path / "one/p.npz", *size)
    found = isopix.palette.fit(data="digits", colors=5, out=tmp_path / "other/p.npz", size=(8, 8), limit=50)
    assert_same_files(tmp_path / "one", tmp_path / "other")
    assert set(found.files) == set((tmp_path / "other").iterdir())
    assert found.errors.keys() == {"train", "validation", "test"}
    again = isopix.palette.show(tmp_path / "other/p.npz", data="digits", size=(8, 8), limit=50)
    assert again.files == ()
    assert again.errors["test"].rmse == found.errors["test"].rmse
    assert torch.equal(again.palette.colors, found.palette.colors)


def test_import(tmp_path: Path) -> None:
    np.save(tmp_path / "colors.npy", np.eye(3, dtype=np.float32))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    words = ["--range", "0", "1", "--out", tmp_path / "one/p.npz"]
    cli("palette", "import", tmp_path / "colors.npy", *words)
    found = isopix.palette.import_(
        tmp_path / "colors.npy", out=tmp_path / "other/p.npz", value_range=(0.0, 1.0)
    )
    assert_same_files(tmp_path / "one", tmp_path / "other")
    assert found.palette.colors.tolist() == (255 * np.eye(3)).tolist()
    line = refusal(lambda: isopix.palette.import_(tmp_path / "colors.npy", out=tmp_path / "p.npz"))
    assert "its values range from 0 to 1, and the range of b" in line
