"""Base classes of all stems: the vectors that make up a position, one for each of its codes or channels."""

import abc
from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Grid, Images, PositionIndices, Tokens
from isopix.model.init import ModelPart
from isopix.model.token_dropping import PatchRow, pack_patches

Inputs = Images | Codes  # what a stem reads
VisibleInputs = PatchRow | Int[Tensor, "B M Q"]  # inputs that hold some positions of each image
Components = list[Tokens]  # a position is their sum; a masking may leave out some of them
ValueTable = Float[Tensor, "Q K D"]  # the embedding of every value of every code, or of every channel


class Stem(nn.Module, abc.ABC):
    """Images, or their codes, to the components of each position, which depend on that position alone."""

    reads_codes: ClassVar[bool] = False  # whether `inputs` are codes [B N Q] instead of images [B 3 H W]
    has_value_table: ClassVar[bool] = False  # whether every value has an embedding of its own
    if TYPE_CHECKING:

        def __call__(self, inputs: Inputs) -> Components: ...

    @abc.abstractmethod
    def forward(self, inputs: Inputs) -> Components:
        """Return the components, each [B N D]."""

    def gather(self, inputs: Inputs, positions: PositionIndices, grid: Grid) -> VisibleInputs:
        """Return inputs that hold these positions of each image alone."""
        if self.reads_codes:
            return torch.take_along_dim(inputs, positions[..., None], 1)
        return pack_patches(inputs, positions, grid)

    def value_table(self) -> ValueTable:
        """Return the embedding of every value, of a stem that `has_value_table`."""
        raise NotImplementedError


class StemSpec(ModelPart, noun="stem"):
    """Settings of a stem."""

    @abc.abstractmethod
    def build(self, codec: Codec, width: int) -> Stem:
        """Return the stem. Raises ValueError for a codec that it cannot read."""

    @abc.abstractmethod
    def num_components(self, codec: Codec) -> int:
        """Return the number of components of a position."""

    @abc.abstractmethod
    def flops_per_token(self, codec: Codec, width: int) -> int:
        """Return the FLOPs of a forward pass per position; a multiply-add counts as two."""
