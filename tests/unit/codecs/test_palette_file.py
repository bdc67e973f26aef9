"""Palettes on disk, and fitted to bundled digits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import isopix
from isopix.codecs import palette_spec
from isopix.codecs.palette_spec import PaletteFile
from isopix.codecs.results import PaletteResult
from tests.unit.data.refusal import refusal

COLORS = torch.tensor([[0.0, 0, 0], [127.5, 0.25, 30], [255, 255, 255]])
STORED = PaletteFile(COLORS, "by hand", torch.tensor([3, 1, 0]))


@pytest.mark.parametrize("value_range", [(-1.0, 1.0), (0.0, 1.0), (0.0, 255.0)])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_the_stated_range_becomes_levels(
    tmp_path: Path, value_range: tuple[float, float], suffix: str
) -> None:
    path = tmp_path / f"theirs{suffix}"
    values = value_range[0] + COLORS.double().numpy() / 255 * (value_range[1] - value_range[0])
    (np.save if suffix == ".npy" else np.savez)(path, values)
    assert torch.allclose(palette_spec.read_palette(path, value_range).colors, COLORS, atol=1e-5)


def test_levels_of_8_bits_need_no_range(tmp_path: Path) -> None:
    np.save(tmp_path / "theirs.npy", COLORS.byte().numpy())
    assert palette_spec.read_palette(tmp_path / "theirs.npy").colors.tolist() == COLORS.byte().tolist()


@pytest.mark.parametrize(
    ("values", "value_range", "message"),
    [
        ([[0.0, 0, 2]], (0.0, 1.0), "its values range from 0 to 2, outside the range 0 to 1"),
        ([[float("nan"), 0, 0]], (0.0, 1.0), "its values range from nan to nan, outside the range"),
        ([[1.0, 1, 1]], (1.0, 1.0), "its values range from 1 to 1, outside the range 1 to 1"),
        ([[0.0, 0], [1, 1]], (0.0, 1.0), "it has float64 [2, 2]; allowed: one array of numbers [colors 3]"),
        ([[0.0, 0, 1]], None, "state the range of black to white"),
    ],
)
def test_arrays_that_are_not_a_palette_are_refused(
    tmp_path: Path, values: Any, value_range: tuple[float, float] | None, message: str
) -> None:
    np.save(tmp_path / "theirs.npy", np.array(values))
    assert message in refusal(palette_spec.read_palette, tmp_path / "theirs.npy", value_range)


def test_files_of_isopix_that_were_changed_or_cut_off_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    assert refusal(palette_spec.read_palette, path).startswith(f"{path} cannot be read: ")
    assert "does not end in .npz" in refusal(palette_spec.write_palette, tmp_path / "some.png", STORED)
    palette_spec.write_palette(path, STORED)
    content, arrays = path.read_bytes(), dict(np.load(path))
    assert "states its value range, 0 to 255" in refusal(palette_spec.read_palette, path, (0.0, 1.0))
    arrays["colors"][1, 0] += 1
    np.savez(path, **arrays)
    assert "its colors do not match its hash" in refusal(palette_spec.read_palette, path)
    for kept in (0, 5, 300):
        path.write_bytes(content[:kept])
        assert refusal(palette_spec.read_palette, path).startswith(f"{path} cannot be read: ")


def test_fit_writes_palette_figures_and_the_record_that_show_measures_again(tmp_path: Path) -> None:
    found = isopix.palette(tmp_path / "new" / "p.npz", data="digits", colors=5, size=(8, 8), limit=50)
    assert PaletteResult.read(tmp_path / "new" / "p.npz") == found
    written = palette_spec.read_palette(found.path)
    assert written.colors.tolist() == list(map(list, found.rgb))
    assert tuple(written.counts) == found.counts
    again = isopix.palette(tmp_path / "new" / "p.npz", data="digits", size=(8, 8), limit=50)
    figures = [f"p{part}.{suffix}" for part in ("", "-images") for suffix in ("json", "png", "svg")]
    assert {each.name for each in (tmp_path / "new").iterdir()} == {"p.npz", *figures}
    assert (again.splits, again.fingerprint, again.path) == (found.splits, found.fingerprint, None)
    errors = json.loads((tmp_path / "new" / "p-images.json").read_text())["rmse_per_image"]
    assert len(errors) == 10
    assert min(errors) > 0
    few = isopix.palette(tmp_path / "p.npz", data="digits", colors=512, size=(8, 8))
    assert few.num_colors == 17
    assert few.source.endswith("seed 0; 512 were requested, and the images have no more")
