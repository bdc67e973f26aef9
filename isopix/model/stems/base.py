"""What all stems share: the vectors that make up a position, one for each of its codes or channels; and what
a stem of one matrix, or of a vector for each value, lets be looked at.
"""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Tokens

Parts = list[Tokens]  # their sum stands for the whole position; a masking may leave some of them out
Vectors = Float[Tensor, "Q K D"]  # what every level of every code, or of every channel, is embedded as
Filters = Float[Tensor, "D 3 side side"]  # what every channel of a token weighs the pixels of its patch by


@runtime_checkable
class ByValue(Protocol):
    """A stem in which every value has a vector of its own."""

    def vectors(self) -> Vectors:
        """What every level of every code, or of every channel, is embedded as."""


@runtime_checkable
class ByFilter(Protocol):
    """A stem that is linear in the pixels of a patch."""

    def filters(self) -> Filters:
        """Its matrix, a filter for each channel of a token."""
