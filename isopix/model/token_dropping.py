"""Dropping: images without their hidden positions, as strips of those that are left."""

from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Int, UInt8
from torch import Tensor

from isopix.core.types import Grid, Images, Mask, PositionIndices

Strips = UInt8[Tensor, "B 3 cell along"]  # cells side by side, which a stem reads as it reads an image


class Alike(NamedTuple):
    """Images of a batch with the same number of visible positions, and which these are, in raster order."""

    images: Int[Tensor, " B"]
    places: PositionIndices


def alike(hidden: Mask) -> list[Alike]:
    """The images by how many positions each shows: a mask that always hides as many leaves one such run.

    Of a position of which a single code is hidden nothing is shown.
    """
    covered = hidden.any(-1)
    counts = (~covered).sum(1)
    runs = []
    for count in sorted(set(counts.tolist())):
        images = (counts == count).nonzero()[:, 0]
        order = covered[images].to(torch.uint8).argsort(dim=1, stable=True)
        runs.append(Alike(images, order[:, :count]))
    return runs


def strips(images: Images, places: PositionIndices, grid: Grid) -> Strips:
    """The cells at these places."""
    return rearrange(cells_at(images, places, grid), "b n c p q -> b c p (n q)")


def cells_at(images: Images, places: PositionIndices, grid: Grid) -> UInt8[Tensor, "B places 3 cell cell"]:
    """The pixels of each image's positions that are named, in the order in which they are."""
    cell = images.shape[2] // grid.rows
    cells = rearrange(images, "b c (h p) (w q) -> b (h w) c p q", p=cell, q=cell)
    image = torch.arange(len(images), device=images.device)[:, None]
    return cells[image, places]
