"""Surprise maps: nats per pixel drawn over images."""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from einops import rearrange
from jaxtyping import Float, UInt8
from PIL import Image

from isopix.core.types import Images
from isopix.plots.images import Group, Tiles, enlarge, fit_scale, image_grid

QUANTILE = 0.995  # of all pixels, which has the brightest color: single pixels would leave the rest dark
COLORMAP = "inferno"  # perceptually uniform; black is 0
OPACITY = 0.85  # of the map over the image

Maps = Float[np.ndarray, "B R S"]


class MappedImages(NamedTuple):
    """Images under a caption, with the nats per pixel of each on a grid, NaN where nothing was predicted, and
    with their names and scores, which are written below the images and the maps.
    """

    caption: str
    images: Images
    maps: Maps
    names: Sequence[str] = ()
    scores: Sequence[str] = ()


def surprise_grid(columns: list[MappedImages]) -> Image.Image:
    """Return for each caption the images with their maps, all on one scale from 0, which the second caption
    names.
    """
    top = max(
        (float(np.nanquantile(each.maps, QUANTILE)) for each in columns if not np.isnan(each.maps).all()),
        default=1.0,
    )
    blocks = 2 if len(columns[0].images) > 2 else 1
    scale, groups = fit_scale(columns[0].images, 2 * blocks * len(columns)), []
    for each in columns:
        groups += [
            Group(each.caption, [enlarge(each.images, scale)], each.names),
            Group(f"0 to {top:.1f} nats", [overlay_maps(each, top or 1.0, scale)], each.scores, "start"),
        ]
    return image_grid(groups, blocks=blocks)


def overlay_maps(mapped: MappedImages, top: float, scale: int) -> Tiles:
    """Return the maps in color, 0 to `top`, over the images in gray; pixels without a number are gray."""
    pixels = rearrange(mapped.images.cpu().numpy(), "b c h w -> b h w c")
    gray = (pixels @ np.array([0.299, 0.587, 0.114]))[..., None].repeat(3, 3)
    side = pixels.shape[1] // mapped.maps.shape[1]
    maps = mapped.maps.repeat(side, 1).repeat(side, 2)
    heat = mpl.colormaps[COLORMAP](np.nan_to_num(maps / top).clip(0, 1))[..., :3] * 255
    mixed = np.where(np.isnan(maps)[..., None], gray, OPACITY * heat + (1 - OPACITY) * gray)
    tiles: UInt8[np.ndarray, "B h w 3"] = mixed.round().astype(np.uint8).repeat(scale, 1).repeat(scale, 2)
    return np.concatenate([tiles, np.full_like(tiles[..., :1], 255)], axis=-1)
