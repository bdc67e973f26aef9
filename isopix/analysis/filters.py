"""Principal components of a stem's weights: patch-embedding filters, or embedding tables of pixel values."""

from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.model.masking import sum_components
from isopix.model.stems.base import Stem, ValueTable

LINEARITY_TOLERANCE = 1e-3  # relative; allows for rounding of the sum of all filters
NUM_COMPONENTS = 28  # as many as the Vision Transformer paper shows (figure 7, left)

Filters = Float[Tensor, "D 3 side side"]


class PrincipalComponents(NamedTuple):
    """Orthonormal components in order of decreasing variance, the fraction of variance that each explains,
    and the projections of the centered rows onto them.
    """

    components: Float[Tensor, "components F"]
    explained_variance_ratio: Float[Tensor, " components"]
    projections: Float[Tensor, "rows components"]


def principal_components(rows: Float[Tensor, "rows F"], count: int) -> PrincipalComponents:
    """Return at most `count` principal components of the rows.

    The sign of each component makes its entry of largest magnitude positive. The explained variance of
    identical rows is 0.
    """
    rows = rows.detach().cpu().double()
    centered = rows - rows.mean(0)
    _, singular_values, components = torch.linalg.svd(centered, full_matrices=False)
    components = components[:count]
    largest = components.gather(1, components.abs().argmax(1, keepdim=True))
    components = components * largest.sign()
    variance = singular_values.square()
    ratio = variance[:count] / variance.sum().clamp(min=torch.finfo(variance.dtype).tiny)
    return PrincipalComponents(components.float(), ratio.float(), (centered @ components.T).float())


@torch.no_grad()
def patch_filters(stem: Stem, side: int) -> Filters | None:
    """Return the change of a patch's token as each of its sub-pixels goes from 0 to 255, or None if the stem
    is not linear in the pixels.

    The stem is evaluated one sub-pixel at a time, whatever its parametrization. It is linear if the filters
    sum to the difference between a white and a black patch.
    """
    size = 3 * side * side
    pixels = torch.cat([torch.eye(size), torch.zeros(1, size), torch.ones(1, size)]).byte() * 255
    device = next(stem.parameters()).device
    patches = rearrange(pixels, "n (c h w) -> n c h w", c=3, h=side).to(device)
    tokens = sum_components(stem(patches))[:, 0].cpu().double()
    black, white = tokens[-2], tokens[-1]
    filters = tokens[:-2] - black
    if (filters.sum(0) - (white - black)).norm() > LINEARITY_TOLERANCE * filters.norm():
        return None
    return rearrange(filters, "(c h w) d -> d c h w", c=3, h=side)


def filter_components(filters: Filters, count: int = NUM_COMPONENTS) -> PrincipalComponents:
    """Return the principal components of D filters; each is a flattened patch [channel row column]."""
    return principal_components(rearrange(filters, "d c h w -> d (c h w)"), count)


def table_components(tables: ValueTable, count: int) -> list[PrincipalComponents]:
    """Return the principal components of each code's, or channel's, embedding table."""
    return [principal_components(table, count) for table in tables]


def component_images(found: PrincipalComponents, side: int) -> Float[Tensor, "components side side 3"]:
    """Return components of filters as colors in [0, 1]: 0 is mid-gray, the largest entry is at 0 or 1."""
    patches = rearrange(found.components, "n (c h w) -> n h w c", c=3, h=side)
    return 0.5 + patches / (2 * patches.abs().amax((1, 2, 3), keepdim=True).clamp(min=1e-12))
