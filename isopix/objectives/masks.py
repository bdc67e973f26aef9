"""Mask policies: what to hide, as a function of (batch, grid, codes a position, generator)."""

import abc
import math

import torch
from einops import repeat

from isopix.core.registry import Part, register
from isopix.core.types import Grid
from isopix.core.types import Mask as MaskTensor


class MaskSpec(Part, noun="mask"):
    """Settings of a mask policy."""

    @property
    def single_codes(self) -> bool:
        """Whether single codes of a position may be hidden."""
        return False

    @abc.abstractmethod
    def draw(self, batch: int, grid: Grid, codes: int, generator: torch.Generator) -> MaskTensor:
        """Return a mask, True where hidden: drawn on the CPU, so that every device hides the same codes."""

    def require(self, grid: Grid) -> None:
        """Raises ValueError for a grid on which no mask can be drawn."""

    @abc.abstractmethod
    def touched(self, positions: int, codes: int) -> float:
        """Return the share of positions of which something is hidden, on average."""

    @abc.abstractmethod
    def most(self, images: int, positions: int, codes: int) -> int:
        """Return of how many positions of so many images something is hidden, at most."""


@register("independent")
class Independent(MaskSpec):
    """Every position hidden with the same chance, on its own (iGPT section 2.1: 0.15)."""

    ratio: float = 0.15

    def __post_init__(self) -> None:
        _check(self.ratio)

    def draw(self, batch: int, grid: Grid, codes: int, generator: torch.Generator) -> MaskTensor:
        """True where hidden: drawn on the CPU, so that every device hides the same positions."""
        return torch.rand(batch, grid.positions, 1, generator=generator) < self.ratio

    def touched(self, positions: int, codes: int) -> float:
        """The share of positions of which something is hidden, on average."""
        return self.ratio

    def most(self, images: int, positions: int, codes: int) -> int:
        """Of how many positions of so many images something is hidden, at most."""
        return _bound(images * positions, self.touched(positions, codes))

    def label(self) -> str:
        return f"{100 * self.ratio:g} % of positions, independent"


@register("subpixel")
class Subpixel(MaskSpec):
    """Every code hidden with the same chance, on its own: of a pixel in bytes, single channels (the other
    reading of "input index" in the study of inductive biases, section 3).
    """

    ratio: float = 0.15

    def __post_init__(self) -> None:
        _check(self.ratio)

    def draw(self, batch: int, grid: Grid, codes: int, generator: torch.Generator) -> MaskTensor:
        """True where hidden: drawn on the CPU, so that every device hides the same codes."""
        return torch.rand(batch, grid.positions, codes, generator=generator) < self.ratio

    @property
    def single_codes(self) -> bool:
        """Whether single codes of a position may be hidden."""
        return True

    def touched(self, positions: int, codes: int) -> float:
        """The share of positions of which something is hidden, on average."""
        return 1 - (1 - self.ratio) ** codes

    def most(self, images: int, positions: int, codes: int) -> int:
        """Of how many positions of so many images something is hidden, at most."""
        return _bound(images * positions, self.touched(positions, codes))

    def label(self) -> str:
        return f"{100 * self.ratio:g} % of codes, independent"


@register("blocks")
class Blocks(MaskSpec):
    """Squares of `side` x `side` positions hidden whole, as many of them in every image: the mask is drawn on
    a grid that is so many times coarser, and enlarged (PatchFormer section 2.1).

    Of 14 x 14 patches round(0.6 * 7 * 7) = 29 squares are 116, 59.2 %. The paper counts 118 hidden patches,
    which squares of four cannot make: with `exact_count` 118 as many single ones are hidden, anywhere.
    """

    ratio: float = 0.6
    side: int = 2
    exact_count: int | None = None

    def __post_init__(self) -> None:
        _check(self.ratio)
        if self.side < 1 or (self.exact_count is not None and self.exact_count < 1):
            raise ValueError(f"side {self.side} and exact_count {self.exact_count} must be at least 1")

    @property
    def single_codes(self) -> bool:
        """Whether single codes of a position may be hidden."""
        return False

    def draw(self, batch: int, grid: Grid, codes: int, generator: torch.Generator) -> MaskTensor:
        """True where hidden: drawn on the CPU, so that every device hides the same positions."""
        self.require(grid)
        side = 1 if self.exact_count else self.side
        rows, cols = grid.rows // side, grid.cols // side
        count = self._count(grid.positions) // side**2
        order = torch.rand(batch, rows * cols, generator=generator).argsort(1)
        coarse = torch.zeros(batch, rows * cols, dtype=torch.bool).scatter(1, order[:, :count], True)
        return repeat(coarse, "b (h w) -> b (h p w q) 1", h=rows, p=side, q=side)

    def require(self, grid: Grid) -> None:
        """Raises ValueError if the grid cannot be cut into squares, or has too few of them."""
        side = 1 if self.exact_count else self.side
        if grid.rows % side or grid.cols % side:
            raise ValueError(
                f"{grid.rows} x {grid.cols} positions cannot be cut into squares of {side} x {side}; "
                "choose another objective.mask.side"
            )
        self._count(grid.positions)

    def touched(self, positions: int, codes: int) -> float:
        """The share of positions of which something is hidden, in every image."""
        return self._count(positions) / positions

    def most(self, images: int, positions: int, codes: int) -> int:
        """Of how many positions of so many images something is hidden: never more, nor less."""
        return images * self._count(positions)

    def _count(self, positions: int) -> int:
        """How many positions are hidden of so many. Raises ValueError for none, and for all."""
        square = self.side**2
        count = self.exact_count or round(self.ratio * positions / square) * square
        if not 0 < count < positions:
            setting = "exact_count" if self.exact_count else "ratio or side"
            raise ValueError(
                f"{count} of {positions} positions would be hidden; some must be, and some be left: "
                f"choose another objective.mask.{setting}"
            )
        return count

    def label(self) -> str:
        amount = self.exact_count or f"{100 * self.ratio:g} % of"
        shape = "" if self.exact_count or self.side == 1 else f", in {self.side} × {self.side} blocks"
        return f"{amount} positions in every image{shape}"


def scattered(ratio: float, positions: int) -> Blocks:
    """The mask that hides so large a share of single positions in every image, rounded to whole ones. Raises
    ValueError if none would be hidden, or all.
    """
    if not 0 < round(ratio * positions) < positions:
        raise ValueError(
            f"hiding a share of {ratio} would hide {round(ratio * positions)} of {positions} positions; "
            "some must be, and some be left"
        )
    return Blocks(ratio=ratio, side=1)


def _bound(total: int, share: float) -> int:
    """So many of `total` independent positions are never touched if each is with the chance `share`: the mean
    and eight deviations (passed once in 10^15 draws).
    """
    mean = total * share
    return min(total, math.ceil(mean + 8 * math.sqrt(mean * (1 - share))) + 8)


def _check(ratio: float) -> None:
    if not 0 < ratio < 1:
        raise ValueError(f"mask ratio {ratio} must lie between 0 and 1, both excluded")
