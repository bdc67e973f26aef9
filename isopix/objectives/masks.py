"""Mask policies: which positions to hide, as a function of (batch, grid, generator)."""

import math
from typing import Literal

import torch

from isopix.core.config import spec
from isopix.core.types import Grid, Hidden


@spec
class Independent:
    """Every position hidden with the same chance, on its own (iGPT section 2.1: 0.15)."""

    kind: Literal["independent"] = "independent"
    ratio: float = 0.15

    def __post_init__(self) -> None:
        if not 0 < self.ratio < 1:
            raise ValueError(f"mask ratio {self.ratio} must lie between 0 and 1, both excluded")

    def draw(self, batch: int, grid: Grid, generator: torch.Generator) -> Hidden:
        """True where hidden: drawn on the CPU, so that every device hides the same positions."""
        return torch.rand(batch, grid.positions, generator=generator) < self.ratio

    def most(self, total: int) -> int:
        """A bound on the hidden among `total` positions: the mean and eight deviations (passed once in
        10^15 draws).
        """
        mean = total * self.ratio
        return min(total, math.ceil(mean + 8 * math.sqrt(mean * (1 - self.ratio))) + 8)


Mask = Independent
