"""The best sizes for a number of FLOPs, by the scaling laws that come with the package."""

import math
from collections.abc import Iterator
from pathlib import Path

from isopix.recipes import registry
from isopix.recipes.cost import num_parameters
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import BestSize
from isopix.studies.scaling.results import ScalingResult
from isopix.studies.scaling.study import SIZES, Size, for_budget

LAW = Path(__file__).with_name("law.json")  # the result of `isopix reproduce scaling`, without its trials
ALL_SIZES = (*SIZES, *(Size(width, width // 32) for width in range(192, 2049, 64)))


def best_sizes(recipe: Recipe, flops: float) -> Iterator[BestSize]:
    """Yield the size with the lowest expected loss, and that with the lowest expected error of a probe.

    Raises ValueError for a recipe without a law.
    """
    result = ScalingResult.read(LAW)
    laws = [each for each in result.laws if each.laws]
    own = [each for each in laws if each.recipe == recipe.name]
    if not own:
        known = ", ".join(dict.fromkeys(each.recipe for each in laws))
        raise ValueError(f"no scaling law is known for {recipe.name}; allowed: {known}")
    sized = {each: registry.resolve(recipe, settings=each.settings).recipe for each in ALL_SIZES}
    counts = {size: sum(map(num_parameters, each.outline().backbone.blocks)) for size, each in sized.items()}
    for law in own:
        best, expected = (law.laws[name].at(flops) for name in ("parameters", "value"))
        size = min(counts, key=lambda each: abs(math.log(counts[each] / best)))
        settings = *size.settings, f"steps={for_budget(sized[size], flops).train.steps}"
        beyond = flops / law.largest.budget
        yield BestSize(law.measure, best, settings, expected, beyond, result.facts["images"])
