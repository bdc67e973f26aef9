"""Pixel codecs: one position is one pixel, named by the nearest colour of a palette or by its three bytes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.codecs import kmeans, nearest_color, palette_file
from isopix.codecs.base import CodecSpec
from isopix.codecs.bytes import Bytes
from isopix.codecs.palette import Palette
from isopix.codecs.stateless import Fixed
from isopix.core.registry import register
from isopix.core.types import Grid, Images

__all__ = ["ByteChannels", "Bytes", "Palette", "PaletteColours"]


@register("palette")
class PaletteColours(CodecSpec):
    """How many colours, and whence: a palette file, or None to fit them to the training images."""

    colours: int = 512
    source: str | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.colours <= nearest_color.MOST:
            raise ValueError(
                f"a palette of {self.colours} colours is not possible; allowed: 2 to {nearest_color.MOST}"
            )

    @property
    def patch_size(self) -> int:
        """Side in pixels of one position."""
        return 1

    def build(self, grid: Grid, colours: Float[Tensor, "K 3"]) -> Palette:
        """Raises ValueError if these are not as many colours as the settings say."""
        if len(colours) != self.colours:
            raise ValueError(f"the palette has {len(colours)} colours; codec.colours is {self.colours}")
        return Palette(colours, grid)

    @property
    def task(self) -> str:
        """What `fit` has to do that takes time, in words; empty if there is nothing."""
        return "" if self.source else f"fitting {self.colours} colours"

    def fit(self, images: Images, grid: Grid, seed: int) -> Palette:
        """The palette of the file, or one fitted to these images. Raises ValueError if the sizes differ."""
        if self.source is not None:
            return self.build(grid, palette_file.read(Path(self.source)).colours)
        try:
            colours = kmeans.fit(images, self.colours, seed=seed).colours
        except ValueError as error:
            raise ValueError(f"codec.colours: {error}") from None
        return self.build(grid, colours)

    def restore(self, tensors: Mapping[str, Tensor], grid: Grid) -> Palette:
        """The palette that a checkpoint holds. Raises LookupError that names the tensor if it has none."""
        return self.build(grid, tensors["codec.fixed"] / nearest_color.ONE)

    def placeholder(self, grid: Grid) -> Palette:
        """Some palette of this size."""
        count = torch.arange(self.colours)
        return self.build(grid, torch.stack([count % 256, count // 256, torch.zeros_like(count)], 1).float())

    def anchored(self) -> "PaletteColours":
        """The same with the path of its file made absolute."""
        return replace(self, source=str(Path(self.source).resolve())) if self.source else self

    def origin(self) -> dict[str, Any]:
        """Which palette file, and where its colours come from; nothing for a palette of the run's own."""
        if self.source is None:
            return {}
        path = Path(self.source).resolve()
        return {"palette": {"file": str(path), "source": palette_file.read(path).source}}


@register("bytes")
class ByteChannels(Fixed):
    """The three channels as they are: nothing is chosen, fitted or kept."""

    @property
    def patch_size(self) -> int:
        return 1

    def build(self, grid: Grid) -> Bytes:
        return Bytes(grid)
