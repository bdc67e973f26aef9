"""Palette files: isopix's `.npz`, and arrays of colors from elsewhere whose value range is stated."""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from isopix.codecs.palette import Palette
from isopix.core.text import command_line
from isopix.core.types import Grid
from isopix.storage.arrays import Arrays, is_numeric, read_arrays
from isopix.storage.atomic import replace_file

ValueRange = tuple[float, float]

BYTE_RANGE: ValueRange = (0.0, 255.0)
# kmeans_centers.npy, as OpenAI's code reads it: the order of its 512 colors is that of the released weights.
# The hash is of a published copy of that name; it has not been compared with OpenAI's own file.
OPENAI_SHA256 = "c614a3d27f02fd6cf02fbbaf9f02e2431fa202726f3e44750658a85eb226bebd"
OPENAI_FINGERPRINT = "026b91257064536ca8264340d1615891f901d8caa9c1e2f7c8372e216f264b84"  # of its Palette
OPENAI_RANGE: ValueRange = (-1.0, 1.0)
OPENAI_NAME = "kmeans_centers.npy"  # of palettes that image-gpt writes
EXAMPLE = ("--range", "-1", "1", "--out", "palette.npz")


@dataclass(frozen=True)
class PaletteFile:
    """Colors, their source and, if known, how many pixels of the source use each."""

    colors: Float[Tensor, "K 3"]  # levels of 0..255
    source: str
    counts: Int[Tensor, " K"] | None = None

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the `Palette` of these colors."""
        return Palette(self.colors, Grid(1, 1)).fingerprint()


def write_palette(path: Path, palette: PaletteFile) -> None:
    """Write a `.npz` file atomically. Raises ValueError for another suffix."""
    check_palette_path(path)
    arrays: dict[str, Any] = {
        "colors": palette.colors.numpy(),
        "range": np.array(BYTE_RANGE),
        "source": np.array(palette.source),
        "fingerprint": np.array(palette.fingerprint),
    }
    if palette.counts is not None:
        arrays["counts"] = palette.counts.numpy()
    content = io.BytesIO()
    np.savez(content, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content.getvalue())


def check_palette_path(path: Path) -> None:
    """Raise ValueError unless the name ends in .npz."""
    if path.suffix != ".npz":
        raise ValueError(f"palette file {path} does not end in .npz")


def read_palette(path: Path, value_range: ValueRange | None = None) -> PaletteFile:
    """Read isopix's `.npz`, or any `.npy` or `.npz` array [K 3]; `value_range` is its black and white.

    Raises ValueError if there is no such array, if its range is not stated (OpenAI's file is recognized by
    its hash, others of its name by negative values), if the colors are not a valid palette, or if an isopix
    file has been changed.
    """
    if not path.is_file():
        raise ValueError(f"palette file {path} does not exist")
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise ValueError(f"palette file {path} cannot be read: {error}") from None
    try:
        palette = (
            _from_isopix(arrays, value_range)
            if "fingerprint" in arrays
            else _from_array(path, arrays, value_range)
        )
        fingerprint = palette.fingerprint
    except ValueError as error:
        raise ValueError(f"palette file {path}: {error}") from None
    if "fingerprint" in arrays and str(arrays["fingerprint"]) != fingerprint:
        raise ValueError(f"palette file {path}: its colors do not match its hash; the file has been changed")
    return palette


def _from_isopix(arrays: Arrays, value_range: ValueRange | None) -> PaletteFile:
    missing = {"colors", "range", "source"} - arrays.keys()
    if missing:
        raise ValueError(f"it has no {' and no '.join(sorted(missing))}")
    limits = arrays["range"]
    if limits.shape != (2,) or not is_numeric(limits):
        raise ValueError(f"its range is {limits.dtype} {list(limits.shape)}; expected: two numbers")
    stated = (float(limits[0]), float(limits[1]))
    if value_range not in (None, stated):
        raise ValueError(f"it states its value range, {stated[0]:g} to {stated[1]:g}")
    colors = _levels(arrays["colors"], stated)
    return PaletteFile(colors, str(arrays["source"]), _counts(arrays, len(colors)))


def _counts(arrays: Arrays, num_colors: int) -> Int[Tensor, " K"] | None:
    if "counts" not in arrays:
        return None
    counts = arrays["counts"]
    if counts.shape != (num_colors,) or counts.dtype.kind not in "iu":
        raise ValueError(
            f"its counts are {counts.dtype} {list(counts.shape)}; expected: integers [{num_colors}]"
        )
    return torch.from_numpy(counts.astype(np.int64))


def _from_array(path: Path, arrays: Arrays, value_range: ValueRange | None) -> PaletteFile:
    tables = [array for array in arrays.values() if array.ndim == 2 and array.shape[1] == 3]
    if len(tables) != 1:
        shapes = ", ".join(str(array.shape) for array in arrays.values()) or "none"
        raise ValueError(f"arrays of shape {shapes}; expected: one of shape (colors, 3)")
    _check_table(tables[0])
    if hashlib.sha256(path.read_bytes()).hexdigest() == OPENAI_SHA256:
        if value_range not in (None, OPENAI_RANGE):
            raise ValueError("this is OpenAI's palette; its values range from -1 to 1")
        return PaletteFile(
            _levels(tables[0], OPENAI_RANGE),
            "kmeans_centers.npy, matches a published copy of OpenAI's palette",
        )
    if value_range is None and path.name == OPENAI_NAME and tables[0].min() < 0:
        value_range = OPENAI_RANGE
    if value_range is None:
        low, high = tables[0].min(), tables[0].max()
        raise ValueError(
            f"its values range from {low:g} to {high:g}, and the range of black to white is not stated; "
            f"state it (-1 1, or 0 1, or 0 255): {command_line('palette', 'import', path, *EXAMPLE)}"
        )
    return PaletteFile(_levels(tables[0], value_range), path.name)


def _levels(values: NDArray[Any], value_range: ValueRange) -> Float[Tensor, "K 3"]:
    """Return values of that range as levels of 0..255."""
    _check_table(values)
    low, high = value_range
    if not low < high:
        raise ValueError(
            f"the range {low:g} to {high:g} is empty; the first number is black, the second white"
        )
    if not (values.min() >= low and values.max() <= high):  # also true of NaN
        lowest, highest = values.min(), values.max()
        raise ValueError(
            f"its values range from {lowest:g} to {highest:g}, outside the range {low:g} to {high:g}"
        )
    return torch.from_numpy((values.astype(np.float64) - low) / (high - low) * 255).float()


def _check_table(values: NDArray[Any]) -> None:
    if values.ndim != 2 or values.shape[1] != 3 or len(values) == 0 or not is_numeric(values):
        found = f"its colors are {values.dtype} {list(values.shape)}"
        raise ValueError(f"{found}; expected: numbers [colors 3], and at least one color")
