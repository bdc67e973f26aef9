"""Palettes on disk, and fitted to bundled digits."""

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
STORED = PaletteFile(COLORS, "by hand")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays_of_bytes_are_levels(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"theirs{suffix}"
    (np.save if suffix == ".npy" else np.savez)(path, COLORS.byte().numpy())
    assert palette_spec.read_palette(path).colors.tolist() == COLORS.byte().tolist()


def test_a_file_with_the_name_of_openai_has_its_range(tmp_path: Path) -> None:
    path = tmp_path / palette_spec.OPENAI_NAME
    np.save(path, COLORS.double().numpy() / 127.5 - 1)
    assert torch.allclose(palette_spec.read_palette(path).colors, COLORS, atol=1e-5)
    np.save(path, COLORS.byte().numpy())
    assert palette_spec.read_palette(path).colors.tolist() == COLORS.byte().tolist()
    np.save(path, COLORS.numpy() / 255)  # not of OpenAI: its black would be gray
    assert "allowed: one array of uint8" in refusal(palette_spec.read_palette, path)


@pytest.mark.parametrize("values", [[[0.0, 0, 2]], [[0, 0], [1, 1]], np.zeros((0, 3), np.uint8)])
def test_arrays_that_are_not_a_palette_are_refused(tmp_path: Path, values: Any) -> None:
    np.save(tmp_path / "theirs.npy", np.array(values))
    message = "allowed: one array of uint8 [colors 3], or OpenAI's kmeans_centers.npy"
    assert message in refusal(palette_spec.read_palette, tmp_path / "theirs.npy")


def test_files_of_isopix_that_were_changed_or_cut_off_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    assert refusal(palette_spec.read_palette, path).startswith(f"{path} cannot be read: ")
    assert "does not end in .npz" in refusal(palette_spec.write_palette, tmp_path / "some.png", STORED)
    palette_spec.write_palette(path, STORED)
    content, arrays = path.read_bytes(), dict(np.load(path))
    arrays["colors"][1, 0] += 1
    np.savez(path, **arrays)
    assert "its colors do not match its hash" in refusal(palette_spec.read_palette, path)
    for kept in (0, 5, 300):
        path.write_bytes(content[:kept])
        assert refusal(palette_spec.read_palette, path).startswith(f"{path} cannot be read: ")


def test_fit_writes_the_palette_and_the_record_that_show_measures_again(tmp_path: Path) -> None:
    found = isopix.palette(tmp_path / "new" / "p.npz", data="digits", colors=5, size=(8, 8), limit=50)
    assert PaletteResult.read(tmp_path / "new" / "p.npz") == found
    written = palette_spec.read_palette(found.path)
    assert written.colors.tolist() == list(map(list, found.rgb))
    again = isopix.palette(tmp_path / "new" / "p.npz", data="digits", size=(8, 8), limit=50)
    assert {each.name for each in (tmp_path / "new").iterdir()} == {"p.npz", "p.json"}
    assert (again.splits, again.fingerprint, again.path) == (found.splits, found.fingerprint, None)
    few = isopix.palette(tmp_path / "p.npz", data="digits", colors=512, size=(8, 8))
    assert few.num_colors == 17
    assert few.source.endswith("seed 0; 512 were requested, and the images have no more")
