"""A gated MLP in place of a block's MLP; attention and norms stay as they are.

isopix pretrain igpt.digits --plugin examples/extend/gated_mlp.py model.block.mlp.kind=gated --out runs/gated
"""

from torch import nn
from torch.nn import functional as F

from isopix import parts


@parts.register("gated")
class GatedMLPSpec(parts.MLPSpec):
    """SwiGLU: down(silu(gate(x)) * up(x)) (Shazeer 2020, equation 6)."""

    expansion: int = 4

    def __post_init__(self) -> None:
        if self.expansion < 1:
            raise ValueError(f"expansion {self.expansion} must be at least 1")

    def label(self) -> str:
        return f"SwiGLU {self.expansion}x"

    def build(self, width: int) -> "GatedMLP":
        return GatedMLP(width, self.expansion * width)

    def flops_per_token(self, width: int) -> int:
        return 6 * self.expansion * width * width

    def init(self, scheme: parts.InitScheme) -> parts.InitTable:
        return {"gate": parts.Normal(0.02), "up": parts.Normal(0.02), "down": parts.Normal(0.02)}


class GatedMLP(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, tokens: parts.Tokens) -> parts.Tokens:
        return self.down(F.silu(self.gate(tokens)) * self.up(tokens))
