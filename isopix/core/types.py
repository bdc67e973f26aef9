"""Array types and the grid.

Letters, with one meaning in the whole package: B images, N positions, D width, Q codes per position, K levels
per code, L depth, H W pixels, M some of the positions.
"""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

Images = UInt8[Tensor, "B 3 H W"]
Labels = Int[Tensor, " B"]
Codes = Int[Tensor, "B N Q"]
Tokens = Float[Tensor, "B N D"]
Mask = Bool[Tensor, "B N #Q"]  # True: the blocks may not see it; [B N 1] hides whole positions
LossMask = Bool[Tensor, "B N #Q"]  # True: it counts in the loss
Logits = Float[Tensor, "B N Q K"]
PositionIndices = Int[Tensor, "B M"]  # numbers of positions in raster order, of each image its own
SelectedTokens = Float[Tensor, "B M D"]  # tokens of such places
Scalar = Float[Tensor, ""]


class Grid(NamedTuple):
    """The lattice of positions that a model reads: one for each pixel, or one for each patch; raster
    order.
    """

    rows: int
    cols: int

    @property
    def positions(self) -> int:
        return self.rows * self.cols
