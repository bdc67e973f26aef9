"""Principal components of what a stem embeds by: the filters of a patch embedding, or the vectors that stand
for the values of a pixel.
"""

from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from isopix.model.masking import sum_components
from isopix.model.stems.base import ValueTable

LINEAR = 1e-3  # of the whole, by which a sum of parts may miss it for rounding's sake
Filters = Float[Tensor, "D 3 side side"]  # what every channel of a token weighs the pixels of its patch by

COMPONENTS = 28  # shown of a patch embedding (Vision Transformer, figure 7, left)


class Components(NamedTuple):
    """Directions of unit length, orthogonal, the widest first; how much of all variance each explains; and
    how far along each every row lies from the mean.
    """

    directions: Float[Tensor, "components F"]
    explained: Float[Tensor, " components"]
    along: Float[Tensor, "rows components"]


def components(rows: Float[Tensor, "rows F"], count: int) -> Components:
    """Principal components of centred rows, at most `count`. The sign of each is such that its largest entry
    is positive; all-equal rows explain nothing by nothing.
    """
    rows = rows.detach().cpu().double()
    centred = rows - rows.mean(0)
    _, widths, directions = torch.linalg.svd(centred, full_matrices=False)
    directions = directions[:count]
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    directions = directions * largest.sign()
    variance = widths.square()
    explained = variance[:count] / variance.sum().clamp(min=torch.finfo(variance.dtype).tiny)
    return Components(directions.float(), explained.float(), (centred @ directions.T).float())


@torch.no_grad()
def filters(stem: nn.Module, side: int) -> Filters | None:
    """What each pixel of a patch of that side adds to its token, from black to white; None for a stem that is
    not linear in its pixels, for which there is no such thing.

    They are asked for pixel by pixel, so that it does not matter how a stem keeps its matrix. It is linear if
    a white patch is the sum of them all.
    """
    size = 3 * side * side
    lit = torch.cat([torch.eye(size), torch.zeros(1, size), torch.ones(1, size)]).byte() * 255
    device = next(stem.parameters()).device
    patches = rearrange(lit, "n (c h w) -> n c h w", c=3, h=side).to(device)
    answers = sum_components(stem(patches))[:, 0].double().cpu()
    black, white = answers[-2], answers[-1]
    each = answers[:-2] - black
    if (each.sum(0) - (white - black)).norm() > LINEAR * each.norm():
        return None
    return rearrange(each, "(c h w) d -> d c h w", c=3, h=side)


def of_filters(given: Filters, count: int = COMPONENTS) -> Components:
    """Of the D filters of a patch embedding: each direction is a patch again, [channel row column] in one
    (`patches` makes pictures of it).
    """
    return components(rearrange(given, "d c h w -> d (c h w)"), count)


def of_values(vectors: ValueTable, count: int) -> list[Components]:
    """Of the vectors of each code or channel on its own: `along` tells where every value lies."""
    return [components(table, count) for table in vectors]


def patches(found: Components, side: int) -> Float[Tensor, "components side side 3"]:
    """Directions as colours in [0, 1]: mid-grey is 0, and the largest entry of each is at 0 or 1."""
    squares = rearrange(found.directions, "n (c h w) -> n h w c", c=3, h=side)
    return 0.5 + squares / (2 * squares.abs().amax((1, 2, 3), keepdim=True).clamp(min=1e-12))
