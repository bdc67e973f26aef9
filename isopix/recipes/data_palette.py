"""The number of colors of a palette file, and the palette of images that are given as codes, in a recipe."""

from collections.abc import Collection

from isopix.data.sources.arrays import palette_of
from isopix.recipes.recipe import Recipe

PALETTE_SETTINGS = ("num_colors", "palette_file")


def with_palette_of_data(recipe: Recipe, given: Collection[str]) -> Recipe:
    """Return the recipe with the number of colors of its palette file, if `given`, the paths of settings, has
    one; else with the palette beside its images, if these are given as codes and its codec can have one. A
    number of colors that is given is not changed.

    Raises ValueError if the palette cannot be read.
    """
    names = {path.rpartition(".")[2] for path in given}
    palette = None if "palette_file" in names else palette_of(recipe.data.source)
    if "num_colors" in names or (palette is None and "palette_file" not in names):
        return recipe
    return recipe.updated(codec=recipe.model.codec.with_palette(palette))
