"""What all stems share: the vectors that make up a position, one for each of its codes or channels."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Tokens

Parts = list[Tokens]  # their sum stands for the whole position; a masking may leave some of them out
Vectors = Float[Tensor, "Q K D"]  # what every level of every code, or of every channel, is embedded as


@runtime_checkable
class ByValue(Protocol):
    """A stem that embeds every level of every code, or of every channel, by a vector of its own."""

    def vectors(self) -> Vectors:
        """These vectors."""
