"""Translation error, receptive field (how far a change spreads) and permutation error at every layer, and the
color error of reconstructions.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isopix.analysis.base import Analysis, AnalysisInput, Numbers, image_source
from isopix.core.random import generator
from isopix.core.registry import register
from isopix.core.text import Table
from isopix.core.types import Grid, Images, Mask, Tokens
from isopix.model.network import Network
from isopix.plots.biases import plot_inductive_biases

RADIUS_FRACTION = 0.95  # fraction of the change within the radius of a receptive field
FLIP_HIGH_BIT = 0x80  # moves a level by 128 of 256
BATCH_SIZE = 16
MAX_IMAGES = 32  # of the analysis; each takes seven forward passes


class ReceptiveField(NamedTuple):
    """Where a change shows: fractions by (row, column) offset [2 rows - 1, 2 cols - 1], 0 in the center."""

    fractions: Float[np.ndarray, "rows cols"]

    @property
    def profile(self) -> Float[np.ndarray, " distances"]:
        """The fraction at each distance 0, 1, ...: the larger of the row and the column offset."""
        offsets = np.indices(self.fractions.shape) - np.array(self.fractions.shape)[:, None, None] // 2
        return np.bincount(np.abs(offsets).max(0).ravel(), self.fractions.ravel())

    @property
    def mean_distance(self) -> float:
        return float(self.profile @ np.arange(len(self.profile)))

    @property
    def radius_95(self) -> int:
        """The smallest distance that contains 95% of the change."""
        return int((self.profile.cumsum() < RADIUS_FRACTION * self.fractions.sum()).sum())


class BiasMeasurements(NamedTuple):
    translation_error: list[float]
    receptive_field: list[ReceptiveField]
    permutation_error: list[float]


def measure_inductive_biases(
    network: Network, images: Images, generator: torch.Generator
) -> BiasMeasurements:
    """Return all three measurements on the same images."""
    return BiasMeasurements(
        translation_error(network, images),
        receptive_field(network, images, generator),
        permutation_error(network, images, generator),
    )


def translation_error(
    network: Network, images: Images, *, shift: tuple[int, int] | None = None, margin: int | None = None
) -> list[float]:
    """Return the `RelativeError` of the features of shifted images and the shifted features, per layer.

    `shift` is in positions down and right, by default an eighth of each side. Positions that came from the
    opposite side, or lie within `margin` of a border (default: a quarter of the shorter side), are left out:
    a convolution whose receptive field is smaller than the margin has an error of exactly 0.
    """
    rows, cols = network.backbone.grid
    down, right = shift or (max(1, rows // 8), max(1, cols // 8))
    margin = min(rows, cols) // 4 if margin is None else margin
    order = rearrange(torch.arange(rows * cols), "(h w) -> h w", h=rows).roll((down, right), (0, 1))
    inside = order.new_zeros(rows, cols, dtype=torch.bool)
    inside[margin + down : rows - margin, margin + right : cols - margin] = True
    orders = repeat(order, "h w -> b (h w)", b=len(images))
    return _equivariance_error(network, images, orders, inside.flatten())


def permutation_error(network: Network, images: Images, generator: torch.Generator) -> list[float]:
    """Return the `RelativeError` of features of permuted images and permuted features: 0 if equivariant."""
    count = network.backbone.grid.positions
    orders = torch.stack([torch.randperm(count, generator=generator) for _ in images])
    return _equivariance_error(network, images, orders, torch.ones(count, dtype=torch.bool))


@torch.no_grad()
def receptive_field(network: Network, images: Images, generator: torch.Generator) -> list[ReceptiveField]:
    """Return the spread of a change of one random position per image, by 128 levels, per layer."""
    grid = network.backbone.grid
    positions = torch.randint(grid.positions, (len(images),), generator=generator)
    offsets = (2 * grid.rows - 1, 2 * grid.cols - 1)
    totals = torch.zeros(network.backbone.depth + 1, *offsets, dtype=torch.float64)
    index = torch.arange(grid.positions)
    batches = zip(torch.split(images, BATCH_SIZE), torch.split(positions, BATCH_SIZE), strict=True)
    for batch, position in batches:
        patches = _to_patches(batch, grid).clone()
        patches[torch.arange(len(batch)), position] ^= FLIP_HIGH_BIT
        down = index // grid.cols - position[:, None] // grid.cols + grid.rows - 1
        right = index % grid.cols - position[:, None] % grid.cols + grid.cols - 1
        pairs = _feature_pairs(network, batch, _to_images(patches, grid))
        for total, (a, b) in zip(totals, pairs, strict=True):
            change = (b.cpu().double() - a.cpu().double()).norm(dim=-1)
            change /= change.sum(1, keepdim=True).clamp(min=torch.finfo(change.dtype).tiny)
            total.index_put_((down, right), change, accumulate=True)
    sums = totals.sum((1, 2), keepdim=True)  # 0 where no feature depends on the image
    fractions = totals / sums.where(sums > 0, 1)
    return [ReceptiveField(each.numpy()) for each in fractions]


def uniform_receptive_field(grid: Grid) -> ReceptiveField:
    """Return the reference of a change that shows equally at all positions, averaged over its position."""
    down, right = (side - np.abs(np.arange(1 - side, side)) for side in grid)
    return ReceptiveField(np.outer(down, right) / grid.positions**2)


class RelativeError:
    """Root mean squared distance of corresponding vectors, divided by that of independently drawn ones."""

    def __init__(self) -> None:
        self.count, self.squared_error, self.squares = 0, 0.0, 0.0
        self.sum_a: Tensor | float = 0.0
        self.sum_b: Tensor | float = 0.0

    def add(self, a: Float[Tensor, "M D"], b: Float[Tensor, "M D"]) -> None:
        a, b = a.cpu().double(), b.cpu().double()  # not every device has float64
        self.count += len(a)
        self.squared_error += float((a - b).square().sum())
        self.squares += float(a.square().sum() + b.square().sum())
        self.sum_a, self.sum_b = self.sum_a + a.sum(0), self.sum_b + b.sum(0)

    @property
    def value(self) -> float:
        """The relative error of all rows; 0 if all pairs are equal."""
        if not self.squared_error:
            return 0.0
        common = float(torch.as_tensor(self.sum_a * self.sum_b).sum())
        return float((self.squared_error / (self.squares - 2 * common / self.count)) ** 0.5)


@torch.no_grad()
def _equivariance_error(
    network: Network, images: Images, orders: Int[Tensor, "B N"], inside: Bool[Tensor, " N"]
) -> list[float]:
    grid, errors = network.backbone.grid, [RelativeError() for _ in range(network.backbone.depth + 1)]
    for batch, order in zip(torch.split(images, BATCH_SIZE), torch.split(orders, BATCH_SIZE), strict=True):
        row = torch.arange(len(batch))[:, None]
        reordered = _to_images(_to_patches(batch, grid)[row, order], grid)
        for error, (a, b) in zip(errors, _feature_pairs(network, batch, reordered), strict=True):
            expected = a.cpu()[row, order]
            error.add(b.cpu()[:, inside].flatten(0, 1), expected[:, inside].flatten(0, 1))
    return [error.value for error in errors]


def _feature_pairs(network: Network, a: Images, b: Images) -> Iterator[tuple[Tokens, Tokens]]:
    device, backbone = network.device, network.backbone
    for pair in zip(network.features(a.to(device)), network.features(b.to(device)), strict=True):
        yield backbone.patch_tokens(pair[0]), backbone.patch_tokens(pair[1])


def _to_patches(images: Images, grid: Grid) -> Tensor:
    return rearrange(images, "b c (h p) (w q) -> b (h w) c p q", h=grid.rows, w=grid.cols)


def _to_images(patches: Tensor, grid: Grid) -> Images:
    return rearrange(patches, "b (h w) c p q -> b c (h p) (w q)", h=grid.rows)


@register("inductive_biases")
class InductiveBiases(Analysis):
    """Translation error, permutation error and receptive field of every layer."""

    figure = staticmethod(plot_inductive_biases)

    def not_applicable_reason(self, network: Network) -> str | None:
        rows, cols = network.backbone.grid
        return None if min(rows, cols) > 1 else f"a {rows} x {cols} grid is too small to be shifted"

    def compute(self, given: AnalysisInput) -> Numbers:
        images = given.images[:MAX_IMAGES]
        biases = measure_inductive_biases(given.network, images, generator(given.seed, "biases"))
        return {
            **given.common_results(),
            "images": len(images),
            "uniform_receptive_field_mean": uniform_receptive_field(given.backbone.grid).mean_distance,
            "layers": [
                {
                    "layer": layer,
                    "translation_error": translation,
                    "permutation_error": permutation,
                    "receptive_field_mean": field.mean_distance,
                    "receptive_field_radius_95": field.radius_95,
                }
                for layer, (translation, field, permutation) in enumerate(zip(*biases, strict=True))
            ],
        }

    def caption(self, numbers: Numbers) -> str:
        return (
            "Relative error of features under translation (left) and permuted positions (middle): 0 is"
            " equivariant, 1 is no better than chance. Right: mean distance at which a change of one"
            f" position shows; dashed: uniform. {numbers['images']:,} images{image_source(numbers)}."
        )

    def table(self, numbers: Numbers) -> Table:
        measured = ("translation_error", "permutation_error", "receptive_field_mean")
        uniform = f"{numbers['uniform_receptive_field_mean']:.1f}"
        return Table(
            f"Inductive biases, {numbers['images']} images; uniform receptive field: mean distance {uniform}",
            ("layer", "translation error", "permutation error", "mean distance", "95% radius"),
            [
                (each["layer"], *(f"{each[key]:.2f}" for key in measured), each["receptive_field_radius_95"])
                for each in numbers["layers"]
            ],
        )


MAX_LEVEL = 255


class ColorError(NamedTuple):
    """Errors as fractions of a channel's range, averaged over masked sub-pixels, then over images.

    The histogram error is the mean absolute difference of sorted levels (the Wasserstein-1 distance), a lower
    bound over all orders of the predictions; the rest of the error is right colors at wrong positions.
    """

    mean_absolute: float
    histogram: float

    @property
    def misplaced_fraction(self) -> float:
        """The fraction of the error that a permutation of the predictions would remove; 0 without error."""
        return 1 - self.histogram / self.mean_absolute if self.mean_absolute else 0.0


def color_error(target: Images, mask: Mask, prediction: Images) -> ColorError:
    """Return the color error over pixels with any masked channel. ValueError if no image has one."""
    errors, histogram_errors = [], []
    for true, masked, predicted in zip(target.flatten(2), mask.any(-1), prediction.flatten(2), strict=True):
        if masked.any():
            a, b = true[:, masked].float() / MAX_LEVEL, predicted[:, masked].float() / MAX_LEVEL
            errors.append((a - b).abs().mean())
            histogram_errors.append((a.sort(1).values - b.sort(1).values).abs().mean())
    if not errors:
        raise ValueError("no pixel of these images is masked; there is no color error")
    return ColorError(float(torch.stack(errors).mean()), float(torch.stack(histogram_errors).mean()))
