"""Published results: a number, the recipe it was published for, and how it was measured."""

from collections.abc import Iterable
from dataclasses import dataclass

from isopix.codecs.base import Codec
from isopix.core.config import to_dict
from isopix.recipes.recipe import NETWORK, Recipe


@dataclass(frozen=True)
class PublishedResult:
    """`value` in `unit`, published in `source` for the model of `recipe` and measured by `protocol`."""

    recipe: Recipe
    protocol: str
    value: float
    unit: str
    source: str
    codec_fingerprint: str  # of the palette that the number depends on
    step: int  # training steps before the measurement

    def applies_to(self, recipe: Recipe, codec: Codec) -> bool:
        """Return whether `recipe` and `codec` describe the published model, after any number of steps."""
        return (
            _model_settings(recipe) == _model_settings(self.recipe)
            and codec.fingerprint() == self.codec_fingerprint
        )


def find_published(
    results: Iterable[PublishedResult], recipe: Recipe, codec: Codec
) -> PublishedResult | None:
    """Return the first result that applies to this model, or None."""
    return next((result for result in results if result.applies_to(recipe, codec)), None)


def _model_settings(recipe: Recipe) -> tuple[object, ...]:
    """Return the settings that define the function of the weights; codecs are compared by fingerprint."""
    values = to_dict(recipe)
    del values["model"]["codec"]
    return (*(values[name] for name in NETWORK), recipe.grid)
