"""Token dropping: the visible positions of images, gathered."""

from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Int, UInt8
from torch import Tensor

from isopix.core.types import Grid, Images, Mask, PositionIndices

PatchRow = UInt8[Tensor, "B 3 patch_size _"]  # patches side by side, which a stem reads like an image


class LengthGroup(NamedTuple):
    """Images of a batch with equally many visible positions, and the indices of these in raster order."""

    images: Int[Tensor, " B"]
    positions: PositionIndices


def group_by_length(mask: Mask) -> list[LengthGroup]:
    """Group images by their number of positions without any masked code; waits for the mask's device."""
    counts = (~mask.any(-1)).sum(1)
    groups = []
    for count in sorted(set(counts.tolist())):
        images = (counts == count).nonzero()[:, 0]
        groups.append(LengthGroup(images, visible_positions(mask[images], count)))
    return groups


def visible_positions(mask: Mask, count: int) -> PositionIndices:
    """Return the `count` positions of each image without any masked code, in raster order."""
    return mask.any(-1).to(torch.uint8).argsort(dim=1, stable=True)[:, :count]


def pack_patches(images: Images, positions: PositionIndices, grid: Grid) -> PatchRow:
    """Return the patches at these positions, side by side."""
    return rearrange(gather_patches(images, positions, grid), "b n c p q -> b c p (n q)")


def gather_patches(
    images: Images, positions: PositionIndices, grid: Grid
) -> UInt8[Tensor, "B M 3 patch_size patch_size"]:
    """Return the pixels of each image at these positions."""
    size = images.shape[2] // grid.rows
    patches = rearrange(images, "b c (h p) (w q) -> b (h w) c p q", p=size, q=size)
    image = torch.arange(len(images), device=images.device)[:, None]
    return patches[image, positions]
