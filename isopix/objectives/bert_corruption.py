"""BERT-style corruption: of the chosen positions most are masked, some replaced and some left as they are."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Grid, Images, LossMask, Mask
from isopix.model.token_dropping import gather_patches


class Corruption(NamedTuple):
    """`source` is the position whose pixels each position shows: its own, or one that was not chosen."""

    loss_mask: LossMask
    mask: Mask
    source: Int[Tensor, "B N"]

    def apply(self, images: Images, grid: Grid) -> Images:
        """Move pixels from each source to its position; stems are local, so that this moves embeddings."""
        patches = gather_patches(images, self.source.to(images.device), grid)
        return rearrange(patches, "b (h w) c p q -> b c (h p) (w q)", h=grid.rows)


def mask_all(chosen: Mask) -> Corruption:
    """Mask everything that was chosen."""
    return Corruption(chosen, chosen, torch.arange(chosen.shape[1]).expand(chosen.shape[:2]))


def keep_or_swap(
    chosen: Mask, *, random_rate: float, keep_rate: float, generator: torch.Generator
) -> Corruption:
    """Of the chosen positions, keep a fraction as they are, show another position of the image at a fraction,
    and mask all others (80, 10 and 10 % in ViT, appendix B.1.2).

    The other position was not chosen itself, so that no target is revealed; where all are chosen, none is
    replaced.
    """
    whole = chosen.any(-1)
    choice, place = torch.rand(2, *whole.shape, generator=generator)
    free = (~whole).sum(1, keepdim=True)
    others = whole.to(torch.uint8).argsort(dim=1, stable=True)  # positions that were not chosen come first
    other = others.gather(1, (place * free).long().minimum((free - 1).clamp(min=0)))
    replaced = whole & (choice < random_rate) & (free > 0)
    visible = replaced | (whole & (choice >= random_rate) & (choice < random_rate + keep_rate))
    source = torch.where(replaced, other, torch.arange(whole.shape[1]))
    return Corruption(chosen, chosen & ~visible[..., None], source)


def concat(corruptions: Iterable[Corruption]) -> Corruption:
    """Concatenate the corruptions of several batches."""
    return Corruption(*map(torch.cat, zip(*corruptions, strict=True)))


def per_image_generators(images: Images) -> list[torch.Generator]:
    """Return a generator for each image, seeded by a hash of its pixels."""
    digests = [hashlib.blake2b(image.numpy().tobytes(), digest_size=8) for image in images.cpu()]
    return [generator(0, f"static/{digest.hexdigest()}") for digest in digests]
