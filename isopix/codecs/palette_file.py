"""Palettes on disk: our `.npz`, and other people's arrays of colours whose value range somebody states."""

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
from isopix.core.command_line import command_line
from isopix.core.types import Grid
from isopix.storage.npy import Arrays, is_numeric, read_arrays

Range = tuple[float, float]

OURS: Range = (0.0, 255.0)
# kmeans_centers.npy, as OpenAI's code reads it: the order of its 512 colours is that of the released weights.
# The hash is of a copy that others publish under that name; of OpenAI's own file it has not been verified.
OPENAI_SHA256 = "c614a3d27f02fd6cf02fbbaf9f02e2431fa202726f3e44750658a85eb226bebd"
OPENAI_FINGERPRINT = "026b91257064536ca8264340d1615891f901d8caa9c1e2f7c8372e216f264b84"  # of its Palette
OPENAI_RANGE: Range = (-1.0, 1.0)
EXAMPLE = ("--range", "-1", "1", "--out", "palette.npz")


@dataclass(frozen=True)
class StoredPalette:
    """Colours, where they come from and, where it is known, how many pixels of those images use each."""

    colours: Float[Tensor, "K 3"]  # levels of 0..255
    source: str
    counts: Int[Tensor, " K"] | None = None

    @property
    def fingerprint(self) -> str:
        """That of the `Palette` of these colours."""
        return Palette(self.colours, Grid(1, 1)).fingerprint()


def write(path: Path, palette: StoredPalette) -> None:
    """Write our `.npz`, whole or not at all. Raises ValueError for a name that ends otherwise."""
    check_name(path)
    arrays: dict[str, Any] = {
        "colours": palette.colours.numpy(),
        "range": np.array(OURS),
        "source": np.array(palette.source),
        "fingerprint": np.array(palette.fingerprint),
    }
    if palette.counts is not None:
        arrays["counts"] = palette.counts.numpy()
    content = io.BytesIO()
    np.savez(content, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(content.getvalue())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_name(path: Path) -> None:
    """Raises ValueError if a palette cannot be written under that name."""
    if path.suffix != ".npz":
        raise ValueError(f"palette file {path} does not end in .npz")


def read(path: Path, span: Range | None = None) -> StoredPalette:
    """The palette in our `.npz`, or in any `.npy` or `.npz` array [K 3] in which `span` is black and white.

    Raises ValueError if there is no such array, if nobody states its range (OpenAI's file is known by its
    hash), if the colours make no palette, or if our file's colours are not those that were written.
    """
    arrays = _arrays(path)
    try:
        palette = _ours(arrays, span) if "fingerprint" in arrays else _theirs(path, arrays, span)
        fingerprint = palette.fingerprint
    except ValueError as error:
        raise ValueError(f"palette file {path}: {error}") from None
    if "fingerprint" in arrays and str(arrays["fingerprint"]) != fingerprint:
        raise ValueError(
            f"palette file {path}: its colours are not those that were written; its hash differs"
        )
    return palette


def _ours(arrays: Arrays, span: Range | None) -> StoredPalette:
    missing = {"colours", "range", "source"} - arrays.keys()
    if missing:
        raise ValueError(f"it has no {' and no '.join(sorted(missing))}")
    limits = arrays["range"]
    if limits.shape != (2,) or not is_numeric(limits):
        raise ValueError(f"its range is {limits.dtype} {list(limits.shape)}; wanted: two numbers")
    stated = (float(limits[0]), float(limits[1]))
    if span not in (None, stated):
        raise ValueError(f"it states its own value range, {stated[0]:g} to {stated[1]:g}")
    colours = _levels(arrays["colours"], stated)
    return StoredPalette(colours, str(arrays["source"]), _counts(arrays, len(colours)))


def _counts(arrays: Arrays, colours: int) -> Int[Tensor, " K"] | None:
    if "counts" not in arrays:
        return None
    counts = arrays["counts"]
    if counts.shape != (colours,) or counts.dtype.kind not in "iu":
        raise ValueError(f"its counts are {counts.dtype} {list(counts.shape)}; wanted: integers [{colours}]")
    return torch.from_numpy(counts.astype(np.int64))


def _theirs(path: Path, arrays: Arrays, span: Range | None) -> StoredPalette:
    tables = [array for array in arrays.values() if array.ndim == 2 and array.shape[1] == 3]
    if len(tables) != 1:
        shapes = ", ".join(str(array.shape) for array in arrays.values()) or "none"
        raise ValueError(f"arrays of shape {shapes}; wanted: one of shape (colours, 3)")
    _check_table(tables[0])
    if hashlib.sha256(path.read_bytes()).hexdigest() == OPENAI_SHA256:
        if span not in (None, OPENAI_RANGE):
            raise ValueError("this is OpenAI's palette; its values run from -1 to 1")
        return StoredPalette(_levels(tables[0], OPENAI_RANGE), "kmeans_centers.npy, taken to be OpenAI's")
    if span is None:
        low, high = tables[0].min(), tables[0].max()
        raise ValueError(
            f"its values lie in {low:g} to {high:g}, and their range is not stated; "
            f"state it (-1 1, or 0 1, or 0 255): {command_line('palette', 'import', path, *EXAMPLE)}"
        )
    return StoredPalette(_levels(tables[0], span), path.name)


def _levels(values: NDArray[Any], span: Range) -> Float[Tensor, "K 3"]:
    """Values of that range as levels of 0..255."""
    _check_table(values)
    low, high = span
    if not low < high:
        raise ValueError(
            f"the range {low:g} to {high:g} is empty; the first number is black, the second white"
        )
    if not (values.min() >= low and values.max() <= high):  # also true of NaN
        lowest, highest = values.min(), values.max()
        raise ValueError(
            f"its values lie in {lowest:g} to {highest:g}, outside the range {low:g} to {high:g}"
        )
    return torch.from_numpy((values.astype(np.float64) - low) / (high - low) * 255).float()


def _check_table(values: NDArray[Any]) -> None:
    if values.ndim != 2 or values.shape[1] != 3 or len(values) == 0 or not is_numeric(values):
        found = f"its colours are {values.dtype} {list(values.shape)}"
        raise ValueError(f"{found}; wanted: whole numbers or decimals [colours 3], and at least one colour")


def _arrays(path: Path) -> Arrays:
    """The arrays of a `.npy` or `.npz` file, by name."""
    if not path.is_file():
        raise ValueError(f"palette file {path} does not exist")
    try:
        return read_arrays(path)
    except ValueError as error:
        raise ValueError(f"palette file {path} cannot be read: {error}") from None
