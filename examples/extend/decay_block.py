"""A block without attention: each position averages the positions before it, nearer ones with larger weights.

isopix pretrain igpt.digits --plugin examples/extend/decay_block.py block=decay --out runs/decay
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isopix import parts


@parts.register("decay", "exponential decay")
class DecaySpec(parts.BlockSpec):
    """h' = h + down(gelu(average(up(norm1(h))))), with weights exp(-decay * distance) that sum to 1."""

    expansion: int = 4

    def build(self, grid: parts.Grid, width: int, causal: bool) -> "DecayBlock":
        return DecayBlock(self.norm.build(width), grid.positions, width, self.expansion * width, causal)

    def flops(self, grid: parts.Grid, width: int, causal: bool) -> int:
        hidden, pairs = self.expansion * width, grid.positions**2
        return 4 * grid.positions * width * hidden + 2 * pairs * hidden


class DecayBlock(parts.Block):
    distance: Tensor

    def __init__(self, norm: parts.Norm, positions: int, width: int, hidden: int, causal: bool):
        super().__init__()
        self.norm1, self.causal = norm, causal
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.decay = nn.Parameter(torch.zeros(()))
        places = torch.arange(positions)
        self.register_buffer("distance", places[:, None] - places, persistent=False)

    def forward(self, tokens: parts.Tokens) -> parts.Tokens:
        scores = -F.softplus(self.decay) * self.distance.abs()
        if self.causal:  # a position may not read those after it
            scores = scores.masked_fill(self.distance < 0, -torch.inf)
        average = scores.softmax(-1) @ self.up(self.norm1(tokens))
        return tokens + self.down(F.gelu(average))
