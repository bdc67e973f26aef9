"""Array types, and the grid of positions.

Letters, with one meaning in the whole package: B batch, N positions, D width, Q codes per position, K values
of a code, L depth, H W pixels, M selected positions.
"""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

Images = UInt8[Tensor, "B 3 H W"]
Labels = Int[Tensor, " B"]
Groups = Int[Tensor, " B"]  # the original that each image was made from
Codes = Int[Tensor, "B N Q"]
Tokens = Float[Tensor, "B N D"]
Mask = Bool[Tensor, "B N #Q"]  # True: masked, i.e. not an input of the blocks; [B N 1] masks whole positions
LossMask = Bool[Tensor, "B N #Q"]  # True: in the loss
Logits = Float[Tensor, "B N Q K"]
PositionIndices = Int[Tensor, "B M"]  # indices in raster order, different for each image
SelectedTokens = Float[Tensor, "B M D"]  # tokens at these positions
Scalar = Float[Tensor, ""]


class Grid(NamedTuple):
    """The lattice of positions that a model reads: one per pixel or one per patch, in raster order."""

    rows: int
    cols: int

    @property
    def positions(self) -> int:
        return self.rows * self.cols
