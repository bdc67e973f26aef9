"""The palette of images that are given as codes, as the codec of a recipe."""

from collections.abc import Collection

from isopix.data.sources.read_source import palette_of
from isopix.recipes.recipe import Recipe

PALETTE_SETTINGS = ("num_colors", "palette_file")


def with_palette_of_data(recipe: Recipe, given: Collection[str]) -> Recipe:
    """Return the recipe with the palette beside its images, if these are given as codes and its codec can
    have one; unless `given`, the paths of settings, has a palette file or a number of colors.

    Raises ValueError if the palette cannot be read.
    """
    palette = palette_of(recipe.data.source)
    if palette is None or any(path.rpartition(".")[2] in PALETTE_SETTINGS for path in given):
        return recipe
    return recipe.updated(codec=recipe.model.codec.with_palette(palette))
