"""Base class of all blocks: specs that build modules from tokens to tokens of the same shape."""

import abc

from torch import nn

from isopix.core.registry import Part
from isopix.core.types import Grid
from isopix.model.norms import NormSpec, RootMeanSquare


class BlockSpec(Part, noun="block"):
    """Settings of a block; its module starts with a norm called `norm1`, which probes read."""

    norm: NormSpec = RootMeanSquare()

    @property
    def anywhere(self) -> bool:
        """Whether it takes any set of positions, instead of the whole grid in raster order."""
        return False

    @abc.abstractmethod
    def build(self, grid: Grid, width: int, causal: bool) -> nn.Module:
        """Return one block. Raises ValueError for a width or grid that it cannot have."""

    @abc.abstractmethod
    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        """Return the FLOPs of a forward pass per image; a multiply-add counts as two."""
