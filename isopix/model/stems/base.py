"""Base classes of all stems: the vectors that make up a position, one for each of its codes or channels."""

import abc
from typing import TYPE_CHECKING, ClassVar

import torch
from einops import rearrange
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Grid, Images, PositionIndices, Tokens
from isopix.model.init import ModelPart

PatchRow = UInt8[Tensor, "B 3 patch_size _"]  # patches side by side, which a stem reads like an image
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


def pack_patches(images: Images, positions: PositionIndices, grid: Grid) -> PatchRow:
    """Return the patches at these positions, side by side."""
    return rearrange(gather_patches(images, positions, grid), "b n c p q -> b c p (n q)")


def gather_patches(
    images: Images, positions: PositionIndices, grid: Grid
) -> UInt8[Tensor, "B M 3 patch_size patch_size"]:
    """Return the pixels of each image at these positions."""
    size = images.shape[2] // grid.rows
    patches = rearrange(images, "b c (h p) (w q) -> b (h w) c p q", p=size, q=size)
    image = torch.arange(len(images), device=images.device)[:, None]
    return patches[image, positions]
