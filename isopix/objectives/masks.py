"""Mask policies: what to hide, as a function of (batch, grid, codes a position, generator)."""

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
        _check(self.ratio)

    def draw(self, batch: int, grid: Grid, codes: int, generator: torch.Generator) -> Hidden:
        """True where hidden: drawn on the CPU, so that every device hides the same positions."""
        return torch.rand(batch, grid.positions, 1, generator=generator) < self.ratio

    def touched(self, codes: int) -> float:
        """The share of positions of which something is hidden, on average."""
        return self.ratio


@spec
class Subpixel:
    """Every code hidden with the same chance, on its own: of a pixel in bytes, single channels (the other
    reading of "input index" in the study of inductive biases, section 3).
    """

    kind: Literal["subpixel"] = "subpixel"
    ratio: float = 0.15

    def __post_init__(self) -> None:
        _check(self.ratio)

    def draw(self, batch: int, grid: Grid, codes: int, generator: torch.Generator) -> Hidden:
        """True where hidden: drawn on the CPU, so that every device hides the same codes."""
        return torch.rand(batch, grid.positions, codes, generator=generator) < self.ratio

    def touched(self, codes: int) -> float:
        """The share of positions of which something is hidden, on average."""
        return 1 - (1 - self.ratio) ** codes


Mask = Independent | Subpixel


def bound(total: int, share: float) -> int:
    """So many of `total` independent positions are never touched if each is with the chance `share`: the mean
    and eight deviations (passed once in 10^15 draws).
    """
    mean = total * share
    return min(total, math.ceil(mean + 8 * math.sqrt(mean * (1 - share))) + 8)


def _check(ratio: float) -> None:
    if not 0 < ratio < 1:
        raise ValueError(f"mask ratio {ratio} must lie between 0 and 1, both excluded")
