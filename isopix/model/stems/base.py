"""What all stems share: the vectors that make up a position, one for each of its codes or channels."""

import abc
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from isopix.codecs.base import Codec
from isopix.core.registry import Part
from isopix.core.types import Tokens

Parts = list[Tokens]  # their sum stands for the whole position; a masking may leave some of them out
Vectors = Float[Tensor, "Q K D"]  # what every level of every code, or of every channel, is embedded as


@runtime_checkable
class ByValue(Protocol):
    """A stem that embeds every level of every code, or of every channel, by a vector of its own."""

    def vectors(self) -> Vectors:
        """These vectors."""


class StemSpec(Part, noun="stem"):
    """Settings of a stem."""

    @abc.abstractmethod
    def build(self, codec: Codec, width: int) -> nn.Module:
        """Return the stem. Raises ValueError for a codec that it cannot read."""

    @abc.abstractmethod
    def parts(self, codec: Codec) -> int:
        """Return how many vectors make up a position."""

    @abc.abstractmethod
    def flops(self, codec: Codec, width: int) -> int:
        """Return the FLOPs per position; a multiply-add counts as two."""
