"""Mixer block: an MLP over the positions of each channel, then one over the channels of each position."""

from dataclasses import field

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.registry import register
from isopix.core.types import Grid, Tokens
from isopix.model.blocks.base import BlockSpec
from isopix.model.kv_cache import Pair, Seen
from isopix.model.mlp import MLP
from isopix.model.norms import Layer, NormSpec


@register("mixer")
class Mixer(BlockSpec):
    """U = X + W2 GELU(W1 LN(X)); Y = (U' + W4 GELU(W3 LN(U)'))' with X [N D] and ' for transposed
    (inductive biases of small isotropic nets, equations 2 and 3).

    `units` is how many rows W1 has, and None as many as there are positions; `expansion` times the width is
    how many W3 has. Causally, hidden unit j stands at position floor(j N / units), and W1 and W2 are zero
    where they would look ahead: triangular if there are as many units as positions.
    """

    units: int | None = None
    expansion: int = 1
    norm: NormSpec = field(default_factory=Layer)

    def __post_init__(self) -> None:
        if self.expansion < 1 or (self.units is not None and self.units < 1):
            raise ValueError(f"units {self.units} and expansion {self.expansion} must be at least 1")

    @property
    def anywhere(self) -> bool:
        """Whether it takes any set of positions, instead of the whole grid in raster order."""
        return False

    def build(self, grid: Grid, width: int, causal: bool) -> "MixerBlock":
        """One block."""
        return MixerBlock(self, grid, width, causal)

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        """Multiply-adds counted as two, forward, one image; of causal matrices what looks back."""
        positions = grid.positions
        weights = (self.units or positions) * (positions + 1 if causal else 2 * positions)
        return 2 * width * weights + 4 * positions * self.expansion * width * width

    def label(self) -> str:
        tokens = f"{self.units} hidden units" if self.units else "1x"
        return f"MLP-Mixer, token MLP {tokens}, channel MLP {self.expansion}x, {self.norm.label()}, GELU"


class MixerBlock(nn.Module):
    def __init__(self, spec: Mixer, grid: Grid, width: int, causal: bool):
        super().__init__()
        self.norm1 = spec.norm.build(width)
        self.position_mlp = PositionMLP(grid.positions, spec.units or grid.positions, causal)
        self.norm2 = spec.norm.build(width)
        self.mlp = MLP(width, spec.expansion, "gelu", bias=True)

    def forward(self, tokens: Tokens) -> Tokens:
        tokens = tokens + self.position_mlp(self.norm1(tokens))
        return tokens + self.mlp(self.norm2(tokens))

    def cache(self, positions: int) -> Pair:
        return Pair(Seen(positions), Seen(self.position_mlp.units))

    def step(self, tokens: Tokens, cache: Pair) -> Tokens:
        tokens = tokens + self.position_mlp.step(self.norm1(tokens), cache)
        return tokens + self.mlp(self.norm2(tokens))


class PositionMLP(nn.Module):
    """positions -> units -> positions, in each channel alone; with biases."""

    def __init__(self, positions: int, units: int, causal: bool):
        super().__init__()
        self.positions, self.units, self.causal = positions, units, causal
        self.up = nn.Linear(positions, units)
        self.down = nn.Linear(units, positions)

    def forward(self, tokens: Tokens) -> Tokens:
        up, down = self._matrices()
        hidden = F.gelu(F.linear(rearrange(tokens, "b n d -> b d n"), up, self.up.bias))
        return rearrange(F.linear(hidden, down, self.down.bias), "b d n -> b n d")

    def step(self, tokens: Tokens, cache: Pair) -> Tokens:
        """The same answers for the next positions only; `cache` keeps tokens, and units that are complete."""
        up, down = self._matrices()
        begin, done = cache.first.count, cache.second.count
        past = cache.first.extend(tokens)
        end = cache.first.count
        now = -(-end * self.units // self.positions)  # so many units stand before position `end`
        hidden = F.gelu(up[done:now, :end] @ past + self.up.bias[done:now, None])
        hidden = cache.second.extend(hidden)
        return down[begin:end, :now] @ hidden + self.down.bias[begin:end, None]

    def _matrices(self) -> tuple[Tensor, Tensor]:
        if not self.causal:
            return self.up.weight, self.down.weight
        position = torch.arange(self.positions, device=self.up.weight.device)
        unit = torch.arange(self.units, device=position.device) * self.positions // self.units
        return (
            self.up.weight.masked_fill(position > unit[:, None], 0.0),
            self.down.weight.masked_fill(unit > position[:, None], 0.0),
        )
