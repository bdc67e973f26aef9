"""Mask policies: which positions or codes are masked, at random."""

import abc
import math
from typing import Annotated, ClassVar

import torch
from einops import repeat

from isopix.core.choices import Count, Range
from isopix.core.registry import Part, register
from isopix.core.types import Grid, Mask

MaskRatio = Annotated[float, Range(above=0, below=1)]


class MaskSpec(Part, noun="mask"):
    """Settings of a mask policy."""

    masks_single_codes: ClassVar[bool] = False  # whether single codes of a position may be masked
    fixed_count: ClassVar[bool] = False  # whether every image has `max_positions` of one image masked

    @abc.abstractmethod
    def sample(self, batch: int, grid: Grid, num_codes: int, generator: torch.Generator) -> Mask:
        """Return a mask [batch N 1], or [batch N num_codes] with `masks_single_codes`, on the CPU."""

    def check_grid(self, grid: Grid) -> None:
        """Raise ValueError for a grid on which no mask can be drawn."""

    @abc.abstractmethod
    def expected_fraction(self, positions: int, num_codes: int) -> float:
        """Return the expected fraction of positions with a masked code."""

    @abc.abstractmethod
    def max_positions(self, images: int, positions: int, num_codes: int) -> int:
        """Return an upper bound on the positions with a masked code, of this many images in all."""


@register("bernoulli")
class BernoulliMask(MaskSpec):
    """Every position masked independently with probability `ratio` (iGPT section 2.1: 0.15)."""

    ratio: MaskRatio = 0.15
    """Probability that a position is masked."""

    def label(self) -> str:
        return f"{100 * self.ratio:g}% of positions, independent"

    def sample(self, batch: int, grid: Grid, num_codes: int, generator: torch.Generator) -> Mask:
        return torch.rand(batch, grid.positions, 1, generator=generator) < self.ratio

    def expected_fraction(self, positions: int, num_codes: int) -> float:
        return self.ratio

    def max_positions(self, images: int, positions: int, num_codes: int) -> int:
        return _binomial_bound(images * positions, self.ratio)


@register("per_channel")
class PerChannelMask(MaskSpec):
    """Every code masked independently with probability `ratio`: for bytes, single channels of a pixel."""

    masks_single_codes: ClassVar[bool] = True

    ratio: MaskRatio = 0.15
    """Probability that a code is masked."""

    def label(self) -> str:
        return f"{100 * self.ratio:g}% of codes, independent"

    def sample(self, batch: int, grid: Grid, num_codes: int, generator: torch.Generator) -> Mask:
        return torch.rand(batch, grid.positions, num_codes, generator=generator) < self.ratio

    def expected_fraction(self, positions: int, num_codes: int) -> float:
        return 1 - (1 - self.ratio) ** num_codes

    def max_positions(self, images: int, positions: int, num_codes: int) -> int:
        return _binomial_bound(images * positions, self.expected_fraction(positions, num_codes))


@register("block")
class BlockMask(MaskSpec):
    """Squares of `side` x `side` positions, equally many in every image: the mask is drawn on a grid coarser
    by this factor, and upsampled (PatchFormer section 2.1).

    The paper counts 118 masked patches, which squares of four cannot make: `exact_count` 118 masks as many
    single positions, anywhere.
    """

    fixed_count: ClassVar[bool] = True

    ratio: MaskRatio = 0.6
    """Fraction of the squares that are masked."""
    side: Count = 2
    """Side of a square, in positions."""
    exact_count: Count | None = None
    """Number of single positions to mask instead of squares; null: squares."""

    def label(self) -> str:
        amount = self.exact_count or f"{100 * self.ratio:g}% of"
        shape = "" if self.exact_count or self.side == 1 else f", in {self.side} × {self.side} blocks"
        return f"{amount} positions in every image{shape}"

    def sample(self, batch: int, grid: Grid, num_codes: int, generator: torch.Generator) -> Mask:
        self.check_grid(grid)
        side = 1 if self.exact_count else self.side
        rows, cols = grid.rows // side, grid.cols // side
        count = self._count(grid.positions) // side**2
        order = torch.rand(batch, rows * cols, generator=generator).argsort(1)
        coarse = torch.zeros(batch, rows * cols, dtype=torch.bool).scatter(1, order[:, :count], True)
        return repeat(coarse, "b (h w) -> b (h p w q) 1", h=rows, p=side, q=side)

    def check_grid(self, grid: Grid) -> None:
        side = 1 if self.exact_count else self.side
        if grid.rows % side or grid.cols % side:
            raise ValueError(
                f"{grid.rows} x {grid.cols} positions cannot be cut into squares of {side} x {side}; "
                "choose another objective.mask.side"
            )
        self._count(grid.positions)

    def expected_fraction(self, positions: int, num_codes: int) -> float:
        return self._count(positions) / positions

    def max_positions(self, images: int, positions: int, num_codes: int) -> int:
        return images * self._count(positions)

    def _count(self, positions: int) -> int:
        square = self.side**2
        count = self.exact_count or round(self.ratio * positions / square) * square
        if not 0 < count < positions:
            setting = "exact_count" if self.exact_count else "ratio or side"
            raise ValueError(
                f"{count} of {positions} positions would be masked; at least one must be masked and one "
                f"visible: choose another objective.mask.{setting}"
            )
        return count


def exact_ratio_mask(ratio: float, positions: int) -> BlockMask:
    """Mask this fraction, rounded, of every image's positions. Raises ValueError if that is none or all."""
    count = round(ratio * positions)
    if not 0 < count < positions:
        raise ValueError(
            f"a mask ratio of {ratio} would mask {count} of {positions} positions; "
            "at least one must be masked and one visible"
        )
    return BlockMask(ratio=ratio, side=1)


def _binomial_bound(total: int, probability: float) -> int:
    """Bound the successes of `total` trials: mean + 8 standard deviations (exceeded once in 10^15 draws)."""
    mean = total * probability
    return min(total, math.ceil(mean + 8 * math.sqrt(mean * (1 - probability))) + 8)
