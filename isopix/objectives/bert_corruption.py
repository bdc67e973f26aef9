"""Corruption: what of a batch is graded, what of that is hidden, and what stands in the place of the rest."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Grid, Images, LossMask, Mask
from isopix.model.token_dropping import cells_at


class Corruption(NamedTuple):
    """`source` says whose pixels each position shows: its own, or those of another that was not chosen."""

    graded: LossMask
    hidden: Mask
    source: Int[Tensor, "B N"]

    def shown(self, images: Images, grid: Grid) -> Images:
        """The images with each position's pixels taken from its source; stems are local, so that this moves
        embeddings.
        """
        taken = cells_at(images, self.source.to(images.device), grid)
        return rearrange(taken, "b (h w) c p q -> b c (h p) (w q)", h=grid.rows)


def untouched(chosen: Mask) -> Corruption:
    """All that a mask has chosen is hidden."""
    return Corruption(chosen, chosen, torch.arange(chosen.shape[1]).expand(chosen.shape[:2]))


def spared(chosen: Mask, *, swapped: float, kept: float, draw: torch.Generator) -> Corruption:
    """Of the positions that a mask has chosen, which stay seen (`kept`), which show another one (`swapped`),
    and which are hidden: all others (80, 10 and 10 % in ViT, appendix B.1.2).

    What is shown elsewhere was not chosen itself, so that no answer is given away; where all are chosen,
    none is swapped.
    """
    whole = chosen.any(-1)
    lot, place = torch.rand(2, *whole.shape, generator=draw)
    free = (~whole).sum(1, keepdim=True)
    others = whole.to(torch.uint8).argsort(dim=1, stable=True)  # those that were not chosen come first
    other = others.gather(1, (place * free).long().minimum((free - 1).clamp(min=0)))
    moved = whole & (lot < swapped) & (free > 0)
    seen = moved | (whole & (lot >= swapped) & (lot < swapped + kept))
    source = torch.where(moved, other, torch.arange(whole.shape[1]))
    return Corruption(chosen, chosen & ~seen[..., None], source)


def stacked(parts: Iterable[Corruption]) -> Corruption:
    """Corruptions of batches as one of them all."""
    return Corruption(*map(torch.cat, zip(*parts, strict=True)))


def of_content(images: Images) -> list[torch.Generator]:
    """A generator for each image that depends on its pixels alone: what is drawn of it never changes."""
    digests = [hashlib.blake2b(image.numpy().tobytes(), digest_size=8) for image in images.cpu()]
    return [generator(0, f"static/{digest.hexdigest()}") for digest in digests]
