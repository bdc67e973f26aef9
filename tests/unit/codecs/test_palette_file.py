"""Palettes on disk."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.codecs import palette_file
from isopix.codecs.palette_file import PaletteFile

COLORS = torch.tensor([[0.0, 0, 0], [127.5, 0.25, 30], [255, 255, 255]])
STORED = PaletteFile(COLORS, "by hand", torch.tensor([3, 1, 0]))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    palette_file.write_palette(tmp_path / "new" / "some.npz", STORED)
    found = palette_file.read_palette(tmp_path / "new" / "some.npz")
    assert torch.equal(found.colors, COLORS)
    assert (found.source, found.fingerprint) == ("by hand", STORED.fingerprint)
    assert found.counts is not None
    assert found.counts.tolist() == [3, 1, 0]


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    palette_file.write_palette(tmp_path / "some.npz", STORED)
    assert [path.name for path in tmp_path.iterdir()] == ["some.npz"]


def test_equal_palettes_are_equal_files(tmp_path: Path) -> None:
    for name in ("one.npz", "other.npz"):
        palette_file.write_palette(tmp_path / name, STORED)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()


@pytest.mark.parametrize("value_range", [(-1.0, 1.0), (0.0, 1.0), (0.0, 255.0)])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_the_stated_range_becomes_levels(
    tmp_path: Path, value_range: tuple[float, float], suffix: str
) -> None:
    path = tmp_path / f"theirs{suffix}"
    values = value_range[0] + COLORS.double().numpy() / 255 * (value_range[1] - value_range[0])
    (np.save if suffix == ".npy" else np.savez)(path, values)
    assert torch.allclose(palette_file.read_palette(path, value_range).colors, COLORS, atol=1e-5)


def test_openai_palette_is_recognized_without_a_range(real_data: Path) -> None:
    found = palette_file.read_palette(real_data / "openai-kmeans-centers.npy")
    assert found.source == "kmeans_centers.npy, matches a published copy of OpenAI's palette"
    assert found.colors[0].tolist() == pytest.approx(
        [127.5 * 1.88664436, 127.5 * 1.66188294, 127.5 * 1.38917464], abs=1e-3
    )


def test_openai_palette_is_rejected_with_another_range(real_data: Path) -> None:
    with pytest.raises(ValueError, match="this is OpenAI's palette; its values range from -1 to 1"):
        palette_file.read_palette(real_data / "openai-kmeans-centers.npy", (0.0, 1.0))


def test_an_unstated_range_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "theirs.npy", COLORS.numpy() / 255)
    with pytest.raises(
        ValueError,
        match=r"its values range from 0 to 1, and .* not stated; state it .*: isopix .*--range -1 1",
    ):
        palette_file.read_palette(tmp_path / "theirs.npy")


def test_a_palette_with_openais_name_and_negative_values_has_its_range(tmp_path: Path) -> None:
    path = tmp_path / "kmeans_centers.npy"
    np.save(path, COLORS.numpy() / 127.5 - 1)
    assert torch.allclose(palette_file.read_palette(path).colors, COLORS, atol=1e-5)
    np.save(path, COLORS.numpy() / 255)
    with pytest.raises(ValueError, match="is not stated"):
        palette_file.read_palette(path)


@pytest.mark.parametrize(
    ("values", "value_range", "message"),
    [
        ([[0.0, 0, 2]], (0.0, 1.0), "its values range from 0 to 2, outside the range 0 to 1"),
        ([[float("nan"), 0, 0]], (0.0, 1.0), "its values range from nan to nan, outside the range"),
        ([[0.0, 0, 0]], (1.0, 1.0), "the range 1 to 1 is empty"),
        ([[0.0, 0], [1, 1]], (0.0, 1.0), r"arrays of shape \(2, 2\); expected: one of shape \(colors, 3\)"),
    ],
)
def test_arrays_that_are_not_a_palette_are_rejected(
    tmp_path: Path, values: list[list[float]], value_range: tuple[float, float], message: str
) -> None:
    np.save(tmp_path / "theirs.npy", np.array(values))
    with pytest.raises(ValueError, match=message):
        palette_file.read_palette(tmp_path / "theirs.npy", value_range)


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"palette file .*none\.npz does not exist"):
        palette_file.read_palette(tmp_path / "none.npz")


def test_pickles_are_rejected(tmp_path: Path) -> None:
    np.save(tmp_path / "theirs.npy", np.array([{"colors": 1}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"palette file .* cannot be read: "):
        palette_file.read_palette(tmp_path / "theirs.npy")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.array([["a", "b", "c"]]), "<U1 [1, 3]"),
        (np.zeros((2, 3), dtype=complex), "complex128 [2, 3]"),
        (np.zeros((0, 3)), "float64 [0, 3]"),
        (np.zeros((2, 3), dtype=bool), "bool [2, 3]"),
    ],
)
@pytest.mark.parametrize("value_range", [(0.0, 1.0), None])
def test_arrays_that_are_not_tables_of_numbers_are_rejected_in_one_line(
    tmp_path: Path, values: np.ndarray, found: str, value_range: tuple[float, float] | None
) -> None:
    path = tmp_path / "theirs.npy"
    np.save(path, values)
    with pytest.raises(ValueError, match=r"^palette file") as error:
        palette_file.read_palette(path, value_range)
    expected = "numbers [colors 3], and at least one color"
    assert str(error.value) == f"palette file {path}: its colors are {found}; expected: {expected}"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("range", np.array(255), "its range is int64 []; expected: two numbers"),
        ("range", np.array(["0", "255"]), "its range is <U3 [2]; expected: two numbers"),
        ("counts", np.array([1.0, 2, 3]), "its counts are float64 [3]; expected: integers [3]"),
        ("counts", np.array([1, 2]), "its counts are int64 [2]; expected: integers [3]"),
        (
            "colors",
            np.array(3.0),
            "its colors are float64 []; expected: numbers [colors 3]",
        ),
    ],
)
def test_isopix_files_are_checked_like_others(
    tmp_path: Path, name: str, value: np.ndarray, message: str
) -> None:
    path = tmp_path / "some.npz"
    palette_file.write_palette(path, STORED)
    np.savez(path, **{**dict(np.load(path)), name: value})
    with pytest.raises(ValueError, match=r"^palette file") as error:
        palette_file.read_palette(path)
    assert str(error.value).startswith(f"palette file {path}: {message}")


@pytest.mark.parametrize("kept", [0, 5, 300])
def test_truncated_files_are_rejected(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "some.npz"
    palette_file.write_palette(path, STORED)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"palette file .* cannot be read: "):
        palette_file.read_palette(path)


def test_changed_colors_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    palette_file.write_palette(path, STORED)
    arrays = dict(np.load(path))
    arrays["colors"][1, 0] += 1
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="its colors do not match its hash; the file has been changed"):
        palette_file.read_palette(path)


def test_isopix_files_state_their_range(tmp_path: Path) -> None:
    palette_file.write_palette(tmp_path / "some.npz", STORED)
    with pytest.raises(ValueError, match="it states its value range, 0 to 255"):
        palette_file.read_palette(tmp_path / "some.npz", (0.0, 1.0))


def test_other_names_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"palette file .*some.png does not end in \.npz"):
        palette_file.write_palette(tmp_path / "some.png", STORED)
