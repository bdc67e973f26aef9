"""`isopix palette`, on bundled digits."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from isopix.cli.palette import app
from isopix.codecs import palette_file

DIGITS = ("--data", "digits", "--size", "8", "8", "--limit", "50")


def call(*words: str | Path) -> None:
    app([str(word) for word in words], result_action="return_value")


def written(folder: Path) -> Sequence[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fit_writes_palette_figures_and_numbers(tmp_path: Path) -> None:
    call("fit", *DIGITS, "--colors", "8", "--out", tmp_path / "p.npz")
    figures = [f"p{part}.{suffix}" for part in ("", "-images") for suffix in ("json", "png", "svg")]
    assert written(tmp_path) == sorted(["p.npz", *figures])
    assert len(palette_file.read_palette(tmp_path / "p.npz").colors) == 8


def test_a_fitted_palette_is_shown_as_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("fit", *DIGITS, "--colors", "17", "--out", tmp_path / "p.npz", "--json")
    printed, saved = json.loads(capsys.readouterr().out), json.loads((tmp_path / "p.json").read_text())
    assert printed["splits"]["train"] == saved["splits"]["train"]
    assert printed["splits"]["train"]["rmse"] == 0
    assert printed["splits"]["train"]["psnr_db"] is None
    call("show", tmp_path / "p.npz")
    assert capsys.readouterr().out.startswith("17 colors: k-means on digits at 8×8, seed 0 (fingerprint ")


def test_fit_with_too_many_colors_names_the_number_of_distinct_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="512 colors requested, but the images have only 17 distinct colors"):
        call("fit", *DIGITS, "--out", tmp_path / "p.npz")


def test_import_accepts_a_negative_range(tmp_path: Path) -> None:
    np.save(tmp_path / "colors.npy", np.array([[-1.0, -1, -1], [0, 0, 0], [1, 1, 1]]))
    call("import", tmp_path / "colors.npy", "--range", "-1", "1", "--out", tmp_path / "p.npz")
    assert palette_file.read_palette(tmp_path / "p.npz").colors[:, 0].tolist() == [0, 127.5, 255]


def test_show_measures_without_writing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "colors.npy", np.array([[0.0, 0, 0], [1, 1, 1], [1, 0, 0]]))
    call("import", tmp_path / "colors.npy", "--range", "0", "1", "--out", tmp_path / "p.npz")
    before = written(tmp_path)
    capsys.readouterr()
    call("show", tmp_path / "p.npz", *DIGITS, "--json")
    assert json.loads(capsys.readouterr().out)["splits"]["test"]["unused_colors"] == 1
    assert written(tmp_path) == before
