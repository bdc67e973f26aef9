"""Pairs of similar images."""

from PIL import Image

from isopix.core.types import Images
from isopix.plots.images import Group, enlarge, fit_scale, image_grid

MOST_BLOCKS = 6  # pairs side by side


def pair_grid(first: Images, second: Images) -> Image.Image:
    """Return the images of each pair side by side, in reading order."""
    blocks = min(MOST_BLOCKS, len(first))
    scale = fit_scale(first, 2 * blocks)
    return image_grid([Group("", [enlarge(each, scale) for each in (first, second)])], blocks=blocks)
