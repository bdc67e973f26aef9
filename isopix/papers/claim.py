"""Claim: a published number, the network that it is of, and how it was measured."""

from collections.abc import Iterable
from dataclasses import dataclass

from isopix.codecs.base import Codec
from isopix.recipes.recipe import NETWORK, Recipe


@dataclass(frozen=True)
class Claim:
    """`value` in `unit`, published in `source` for the network of `recipe`, measured by `protocol`."""

    recipe: Recipe
    protocol: str
    value: float
    unit: str
    source: str
    palette: str  # the fingerprint of the palette that the number depends on
    step: int  # of training, after which it was measured

    def is_of(self, recipe: Recipe, codec: Codec) -> bool:
        """Whether a network of this recipe and codec is such a one as the number was published for, after
        however many steps.
        """
        return _network(recipe) == _network(self.recipe) and codec.fingerprint() == self.palette


def matching(claims: Iterable[Claim], recipe: Recipe, codec: Codec) -> Claim | None:
    """The claim about such a network, if there is one."""
    return next((claim for claim in claims if claim.is_of(recipe, codec)), None)


def _network(recipe: Recipe) -> tuple[object, ...]:
    """What makes two networks the same function of their weights; their codecs are compared by themselves."""
    return (*(getattr(recipe, name) for name in NETWORK if name != "codec"), recipe.grid)
