"""Palette files: isopix's `.npz`, and arrays of colors from elsewhere whose value range is stated."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from isopix.codecs.palette import Palette
from isopix.core.text import command_line, naming
from isopix.core.types import Grid
from isopix.storage.arrays import Arrays, npz_bytes, read_arrays
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
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, npz_bytes(arrays))


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
    with naming(f"palette file {path}"):
        arrays = read_arrays(path)
        return _own(arrays, value_range) if "fingerprint" in arrays else _foreign(path, arrays, value_range)


def _own(arrays: Arrays, value_range: ValueRange | None) -> PaletteFile:
    low, high = map(float, arrays["range"])
    if value_range not in (None, (low, high)):
        raise ValueError(f"it states its value range, {low:g} to {high:g}")
    counts = torch.from_numpy(arrays["counts"].astype(np.int64)) if "counts" in arrays else None
    palette = PaletteFile(_levels(arrays["colors"], (low, high)), str(arrays["source"]), counts)
    if str(arrays["fingerprint"]) != palette.fingerprint:
        raise ValueError("its colors do not match its hash; the file has been changed")
    return palette


def _foreign(path: Path, arrays: Arrays, value_range: ValueRange | None) -> PaletteFile:
    tables = [array for array in arrays.values() if array.ndim == 2 and array.shape[1] == 3]
    if len(tables) != 1 or tables[0].dtype.kind not in "iuf" or not len(tables[0]):
        found = ", ".join(f"{array.dtype} {list(array.shape)}" for array in arrays.values()) or "nothing"
        raise ValueError(f"it has {found}; allowed: one array of numbers [colors 3]")
    [values] = tables
    if hashlib.sha256(path.read_bytes()).hexdigest() == OPENAI_SHA256:
        if value_range not in (None, OPENAI_RANGE):
            raise ValueError("this is OpenAI's palette; its values range from -1 to 1")
        source = "kmeans_centers.npy, matches a published copy of OpenAI's palette"
        return PaletteFile(_levels(values, OPENAI_RANGE), source)
    if value_range is None and path.name == OPENAI_NAME and values.min() < 0:
        value_range = OPENAI_RANGE
    if value_range is None:
        example = command_line("palette", "import", path, *EXAMPLE)
        raise ValueError(
            f"its values range from {values.min():g} to {values.max():g}, and the range of black to white is "
            f"not stated; state it (-1 1, or 0 1, or 0 255): {example}"
        )
    return PaletteFile(_levels(values, value_range), path.name)


def _levels(values: NDArray[Any], value_range: ValueRange) -> Float[Tensor, "K 3"]:
    """Return values of that range as levels of 0..255."""
    low, high = value_range
    if not low < high:
        raise ValueError(
            f"the range {low:g} to {high:g} is empty; the first number is black, the second white"
        )
    least, most = values.min(), values.max()
    if not (least >= low and most <= high):  # also true of NaN
        raise ValueError(
            f"its values range from {least:g} to {most:g}, outside the range {low:g} to {high:g}"
        )
    return torch.from_numpy((values.astype(np.float64) - low) / (high - low) * 255).float()
