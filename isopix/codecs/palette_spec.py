"""Settings of the palette codec."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.codecs import kmeans, nearest_color
from isopix.codecs.base import CodecSpec
from isopix.codecs.palette import COLOR_TENSOR, Palette
from isopix.codecs.palette_file import read_palette
from isopix.core.choices import Range
from isopix.core.registry import register
from isopix.core.types import Grid, ImageSequence


@register("palette")
class PaletteSpec(CodecSpec):
    """A palette of colors. The default for images that are given as codes is their palette."""

    hub_tags: ClassVar[tuple[str, ...]] = ("image-gpt", "imagegpt")
    patch_size = 1

    num_colors: Annotated[int, Range(low=2, high=nearest_color.MAX_COLORS)] = 512
    """Number of colors."""
    palette_file: str | None = None
    """Palette file; null: fitted to the training images."""

    def label(self) -> str:
        return f"{self.num_colors}-color palette"

    def build(self, grid: Grid, colors: Float[Tensor, "K 3"]) -> Palette:
        """Return the palette of these colors. Raises ValueError if there are not `num_colors` of them."""
        if len(colors) != self.num_colors:
            raise ValueError(f"the palette has {len(colors)} colors; codec.num_colors is {self.num_colors}")
        return Palette(colors, grid)

    @property
    def fit_message(self) -> str:
        return "" if self.palette_file else f"fitting {self.num_colors} colors"

    def fit(self, images: ImageSequence, grid: Grid, seed: int) -> Palette:
        """Return the file's palette, or one fitted to the images. Raises ValueError if its size is wrong."""
        if self.palette_file is not None:
            return self.build(grid, read_palette(Path(self.palette_file)).colors)
        try:
            colors = kmeans.fit_palette(images, self.num_colors, seed=seed).colors
        except ValueError as error:
            raise ValueError(f"codec.num_colors: {error}") from None
        return self.build(grid, colors)

    def from_state(self, tensors: Mapping[str, Tensor], grid: Grid) -> Palette:
        return self.build(grid, tensors[COLOR_TENSOR].view(torch.float32))

    def placeholder(self, grid: Grid) -> Palette:
        """Return a palette of this size with arbitrary colors."""
        index = torch.arange(self.num_colors)
        return self.build(grid, torch.stack([index % 256, index // 256, torch.zeros_like(index)], 1).float())

    def with_palette(self, file: Path | None) -> "PaletteSpec":
        """Return the settings with this palette and its number of colors, unless they name one; None: with
        the number of colors of the one that they name. Raises ValueError for what is no palette file.
        """
        if file is None and self.palette_file is not None:
            return replace(self, num_colors=len(read_palette(Path(self.palette_file)).colors))
        if file is None or self.palette_file is not None:
            return self
        return replace(self, num_colors=len(read_palette(file).colors), palette_file=str(file))

    def with_absolute_paths(self) -> "PaletteSpec":
        path = self.palette_file
        return replace(self, palette_file=str(Path(path).resolve())) if path else self

    def provenance(self) -> dict[str, Any]:
        """Return the palette file and the source that it states, to be recorded; nothing if fitted."""
        if self.palette_file is None:
            return {}
        path = Path(self.palette_file).resolve()
        return {"palette": {"file": str(path), "source": read_palette(path).source}}
