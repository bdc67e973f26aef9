"""Settings of the palette codec, and palette files: isopix's `.npz`, arrays of bytes, and OpenAI's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from isopix.codecs import kmeans, nearest_color
from isopix.codecs.base import Codec, CodecSpec
from isopix.codecs.palette import COLOR_TENSOR, Palette
from isopix.core.choices import Range
from isopix.core.registry import register
from isopix.core.text import naming
from isopix.core.types import Grid, ImageSequence
from isopix.storage.arrays import Arrays, npz_bytes, read_arrays
from isopix.storage.atomic import replace_file
from isopix.storage.provenance import sha256_of

# kmeans_centers.npy, as OpenAI's code reads it: the order of its 512 colors is that of the released weights.
# The hash is of a published copy of that name; it has not been compared with OpenAI's own file.
OPENAI_SHA256 = "c614a3d27f02fd6cf02fbbaf9f02e2431fa202726f3e44750658a85eb226bebd"
OPENAI_FINGERPRINT = "026b91257064536ca8264340d1615891f901d8caa9c1e2f7c8372e216f264b84"  # of its Palette
OPENAI_NAME = "kmeans_centers.npy"  # of palettes that image-gpt writes, with colors in [-1, 1]


@dataclass(frozen=True)
class PaletteFile:
    """Colors and their source. Raises ValueError for colors outside of 0..255."""

    colors: Float[Tensor, "K 3"]  # levels of 0..255
    source: str

    def __post_init__(self) -> None:
        Palette(self.colors, Grid(1, 1))  # raises ValueError

    @property
    def fingerprint(self) -> str:
        return Palette(self.colors, Grid(1, 1)).fingerprint()


def write_palette(path: Path, palette: PaletteFile) -> None:
    """Write a `.npz` file atomically."""
    check_palette_path(path)
    arrays: dict[str, Any] = {
        "colors": palette.colors.numpy(),
        "source": np.array(palette.source),
        "fingerprint": np.array(palette.fingerprint),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, npz_bytes(arrays))


def check_palette_path(path: Path) -> None:
    """Raise ValueError unless the name ends in .npz."""
    if path.suffix != ".npz":
        raise ValueError(f"palette file {path} does not end in .npz")


def read_palette(path: Path) -> PaletteFile:
    """Read isopix's `.npz`, an array [K 3] of bytes, or OpenAI's kmeans_centers.npy."""
    arrays = read_arrays(path)
    with naming(str(path)):
        if "fingerprint" not in arrays:
            return _foreign(path, arrays)
        palette = PaletteFile(torch.from_numpy(arrays["colors"]), str(arrays["source"]))
        if str(arrays["fingerprint"]) != palette.fingerprint:
            raise ValueError("its colors do not match its hash; the file has been changed")
        return palette


def _foreign(path: Path, arrays: Arrays) -> PaletteFile:
    tables = [array for array in arrays.values() if array.ndim == 2 and array.shape[1] == 3]
    is_published = sha256_of(path) == OPENAI_SHA256
    is_named = path.name == OPENAI_NAME and all(each.dtype.kind == "f" for each in tables)
    is_scaled = is_published or (is_named and any((each < 0).any() for each in tables))
    if len(tables) != 1 or not len(tables[0]) or not (is_scaled or tables[0].dtype == np.uint8):
        found = ", ".join(f"{array.dtype} {list(array.shape)}" for array in arrays.values()) or "nothing"
        raise ValueError(f"it has {found}; allowed: one array of uint8 [colors 3], or OpenAI's {OPENAI_NAME}")
    levels = tables[0].astype(np.float64)
    source = f"{OPENAI_NAME}, matches a published copy of OpenAI's palette" if is_published else path.name
    return PaletteFile(torch.from_numpy((levels + 1) * 127.5 if is_scaled else levels).float(), source)


@register("palette")
class PaletteSpec(CodecSpec):
    """A palette of colors."""

    hub_tags: ClassVar[tuple[str, ...]] = ("image-gpt", "imagegpt")
    patch_size = 1

    num_colors: Annotated[int, Range(low=2, high=nearest_color.MAX_COLORS)] = 512
    """Number of colors; fewer if the training images have fewer, as grayscale images do."""
    palette_file: str | None = None
    """Palette file; null: fitted to the training images."""

    def label(self) -> str:
        return f"{self.num_colors}-color palette"

    def build(self, grid: Grid, colors: Float[Tensor, "K 3"]) -> Palette:
        if len(colors) != self.num_colors:
            raise ValueError(f"the palette has {len(colors)} colors; codec.num_colors is {self.num_colors}")
        return Palette(colors, grid)

    @property
    def fit_message(self) -> str:
        return "" if self.palette_file else f"fitting {self.num_colors} colors"

    def fit(self, images: ImageSequence, grid: Grid, seed: int) -> Palette:
        if self.palette_file is not None:
            return self.build(grid, read_palette(Path(self.palette_file)).colors)
        palette = Palette(kmeans.fit_palette(images, self.num_colors, seed=seed), grid)
        if palette.vocab_size == 1:
            raise ValueError("all pixels of the training images have one color; a palette needs two")
        return palette

    def fitted(self, codec: Codec) -> "PaletteSpec":
        return replace(self, num_colors=codec.vocab_size)

    def from_state(self, tensors: Mapping[str, Tensor], grid: Grid) -> Palette:
        return Palette(tensors[COLOR_TENSOR].view(torch.float32), grid)

    def placeholder(self, grid: Grid) -> Palette:
        index = torch.arange(self.num_colors)
        return self.build(grid, torch.stack([index % 256, index // 256, torch.zeros_like(index)], 1).float())

    def with_colors_of_file(self) -> "PaletteSpec":
        if self.palette_file is None:
            return self
        return replace(self, num_colors=len(read_palette(Path(self.palette_file)).colors))

    def with_absolute_paths(self) -> "PaletteSpec":
        path = self.palette_file
        return replace(self, palette_file=str(Path(path).resolve())) if path else self

    def provenance(self) -> dict[str, Any]:
        """Return the palette file and the source that it states, to be recorded; nothing if fitted."""
        if self.palette_file is None:
            return {}
        path = Path(self.palette_file).resolve()
        return {"palette": {"file": str(path), "source": read_palette(path).source}}
