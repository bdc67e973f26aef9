"""A mask of the center, for inpainting.

isopix pretrain igpt.digits_bert --plugin examples/extend/center_mask.py mask=center --out runs/center
"""

import torch
from einops import repeat

from isopix import parts


@parts.register("center")
class CenterMask(parts.MaskSpec):
    """The central rectangle of `fraction` of the rows and of the columns, the same in every image."""

    fraction: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.fraction < 1:
            raise ValueError(f"fraction {self.fraction} must be above 0 and below 1")

    def label(self) -> str:
        return f"the central {100 * self.fraction:g}% of rows and columns"

    def sample(self, batch: int, grid: parts.Grid, num_codes: int, generator: torch.Generator) -> parts.Mask:
        inside = torch.zeros(grid.rows, grid.cols, dtype=torch.bool)
        rows, cols = self._side(grid.rows), self._side(grid.cols)
        top, left = (grid.rows - rows) // 2, (grid.cols - cols) // 2
        inside[top : top + rows, left : left + cols] = True
        return repeat(inside, "h w -> b (h w) 1", b=batch).clone()

    def expected_fraction(self, positions: int, num_codes: int) -> float:
        return self.fraction**2

    def max_positions(self, images: int, positions: int, num_codes: int) -> int:
        return images * positions  # the grid's shape is not known here

    def _side(self, length: int) -> int:
        return max(1, round(self.fraction * length))
