"""Inductive biases as numbers: what a network takes for granted about pixels, layer by layer.

Three questions, of the features n that probes read, with nothing hidden. *Translation*: do the features of a
shifted image equal the shifted features? *Locality*: how far does a change of one pixel reach? *Order*: do
the features of an image whose pixels are permuted equal the permuted features? Each answer is that of one
network on some images, trained or not; none looks at labels.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.types import Grid, Images, Tokens
from isopix.model.network import Network

HELD = 0.95  # of a change, within a reach's radius
OTHER_HALF = 0x80  # turns the highest bit of a level, which moves it by 128 of its 256 levels
BATCH = 16  # images a pass

Index = Int[Tensor, "B N"]


class Reach(NamedTuple):
    """Where a change of one position shows: its shares by (row, column) from there, [2 rows - 1, 2 cols - 1],
    no change of place in the middle.
    """

    shares: Float[np.ndarray, "rows cols"]

    @property
    def profile(self) -> Float[np.ndarray, " distances"]:
        """The share at each distance 0, 1, ..: the larger of the rows and the columns between two places."""
        down, right = np.abs(self._offsets())
        return np.bincount(np.maximum(down, right).ravel(), self.shares.ravel())

    @property
    def mean(self) -> float:
        """The mean distance, in positions."""
        return float(self.profile @ np.arange(len(self.profile)))

    @property
    def radius(self) -> int:
        """The least distance within which 95 % of the change lies."""
        return int((self.profile.cumsum() < HELD * self.shares.sum()).sum())

    @property
    def before(self) -> float:
        """The share at places that come before the changed one in raster order: 0 of a causal network."""
        down, right = self._offsets()
        return float(self.shares[(down < 0) | ((down == 0) & (right < 0))].sum())

    def _offsets(self) -> Int[np.ndarray, "2 rows cols"]:
        return np.indices(self.shares.shape) - np.array(self.shares.shape)[:, None, None] // 2


class Biases(NamedTuple):
    """All three of a network, of every layer 0..L."""

    translation: list[float]
    reach: list[Reach]
    order: list[float]


def measure(network: Network, images: Images, generator: torch.Generator) -> Biases:
    """All three on the same images."""
    return Biases(
        translation_error(network, images),
        locality(network, images, generator),
        order_error(network, images, generator),
    )


def translation_error(
    network: Network,
    images: Images,
    *,
    shift: tuple[int, int] | None = None,
    margin: int | None = None,
    batch: int = BATCH,
) -> list[float]:
    """How far the features of shifted images are from the shifted features, as `Mismatch` has it: 0 for
    networks that do not know where they look.

    `shift` positions down and right, by default an eighth of either side. What came in from the other side
    does not count, nor what lies within `margin` positions of a border, by default a quarter of the shorter
    side: wider than a convolution's reach, its error is exactly 0. Raises ValueError if nothing is left.
    """
    rows, cols = network.backbone.grid
    down, right = shift or (max(1, rows // 8), max(1, cols // 8))
    margin = min(rows, cols) // 4 if margin is None else margin
    if min(down, right, margin) < 0 or down + 2 * margin >= rows or right + 2 * margin >= cols:
        raise ValueError(f"a shift of {down, right} and margins of {margin} leave nothing of {rows} x {cols}")
    order = rearrange(torch.arange(rows * cols), "(h w) -> h w", h=rows).roll((down, right), (0, 1))
    inside = order.new_zeros(rows, cols, dtype=torch.bool)
    inside[margin + down : rows - margin, margin + right : cols - margin] = True
    orders = repeat(order, "h w -> b (h w)", b=len(images))
    return _mismatch(network, images, orders, inside.flatten(), batch)


def order_error(
    network: Network, images: Images, generator: torch.Generator, *, batch: int = BATCH
) -> list[float]:
    """How far the features of images, each with its positions permuted at random, are from the permuted
    features, as `Mismatch` has it: 0 for networks that see no order.
    """
    count = network.backbone.grid.positions
    orders = torch.stack([torch.randperm(count, generator=generator) for _ in images])
    return _mismatch(network, images, orders, torch.ones(count, dtype=torch.bool), batch)


@torch.no_grad()
def locality(
    network: Network, images: Images, generator: torch.Generator, *, batch: int = BATCH
) -> list[Reach]:
    """How far a change of one position reaches, by layer: of each image one, drawn at random, turns to the
    other half of all levels.

    The change at a place is the length of the difference of its features; every image counts alike.
    """
    grid, depth = network.backbone.grid, network.backbone.depth
    places = torch.randint(grid.positions, (len(images),), generator=generator)
    totals = torch.zeros(depth + 1, 2 * grid.rows - 1, 2 * grid.cols - 1, dtype=torch.float64)
    every = torch.arange(grid.positions)
    for part, place in zip(torch.split(images, batch), torch.split(places, batch), strict=True):
        changed = _cells(part, grid).clone()
        changed[torch.arange(len(part)), place] ^= OTHER_HALF
        down = every // grid.cols - place[:, None] // grid.cols + grid.rows - 1
        right = every % grid.cols - place[:, None] % grid.cols + grid.cols - 1
        for layer, (one, other) in enumerate(_pairs(network, part, _image(changed, grid))):
            change = (other.double() - one.double()).norm(dim=-1).cpu()
            change /= change.sum(1, keepdim=True).clamp(min=torch.finfo(change.dtype).tiny)
            totals[layer].index_put_((down, right), change, accumulate=True)
    sums = totals.sum((1, 2), keepdim=True)  # 0 where nothing reaches anything
    return [Reach(total.numpy()) for total in totals / sums.where(sums > 0, 1)]


def even_reach(grid: Grid) -> Reach:
    """A change that shows everywhere alike, wherever it is made: what a reach is to be compared with."""
    down, right = (side - np.abs(np.arange(1 - side, side)) for side in grid)
    return Reach(np.outer(down, right) / grid.positions**2)


class Mismatch:
    """How far vectors are from their counterparts: the root of the mean squared distance, divided by that
    from the counterparts of all others, drawn with replacement. 0 is equality, 1 no better than chance.
    """

    def __init__(self) -> None:
        self.count, self.apart, self.squares = 0, 0.0, 0.0
        self.one: Tensor | float = 0.0
        self.other: Tensor | float = 0.0

    def add(self, one: Float[Tensor, "M D"], other: Float[Tensor, "M D"]) -> None:
        """So many more of both."""
        one, other = one.double(), other.double()
        self.count += len(one)
        self.apart += float((one - other).square().sum())
        self.squares += float(one.square().sum() + other.square().sum())
        self.one, self.other = self.one + one.sum(0), self.other + other.sum(0)

    @property
    def share(self) -> float:
        """0 where all are equal, however little others differ."""
        if not self.apart:
            return 0.0
        common = float(torch.as_tensor(self.one * self.other).sum())
        return float((self.apart / (self.squares - 2 * common / self.count)) ** 0.5)


@torch.no_grad()
def _mismatch(network: Network, images: Images, orders: Index, inside: Tensor, batch: int) -> list[float]:
    """By layer, of the features of reordered images and the reordered features, at the places `inside`."""
    compared = [Mismatch() for _ in range(network.backbone.depth + 1)]
    for part, order in zip(torch.split(images, batch), torch.split(orders, batch), strict=True):
        row = torch.arange(len(part))[:, None]
        grid = network.backbone.grid
        moved = _image(_cells(part, grid)[row, order], grid)
        for mismatch, (one, other) in zip(compared, _pairs(network, part, moved), strict=True):
            expected = one.cpu()[row, order]
            mismatch.add(other.cpu()[:, inside].flatten(0, 1), expected[:, inside].flatten(0, 1))
    return [mismatch.share for mismatch in compared]


def _pairs(network: Network, one: Images, other: Images) -> Iterator[tuple[Tokens, Tokens]]:
    """The features of both at every position, layer by layer."""
    device, placed = network.device, network.backbone.patch_tokens
    for pair in zip(network.features(one.to(device)), network.features(other.to(device)), strict=True):
        yield placed(pair[0]), placed(pair[1])


def _cells(images: Images, grid: Grid) -> Tensor:
    """The pixels [B N ..] of each position."""
    return rearrange(images, "b c (h p) (w q) -> b (h w) c p q", h=grid.rows, w=grid.cols)


def _image(cells: Tensor, grid: Grid) -> Images:
    """The pictures that `_cells` took apart."""
    return rearrange(cells, "b (h w) c p q -> b c (h p) (w q)", h=grid.rows)
