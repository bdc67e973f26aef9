"""Mixer block: an MLP over the positions of each channel, then one over the channels of each position."""

from dataclasses import field

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.choices import Size
from isopix.core.registry import register
from isopix.core.types import Grid, Tokens
from isopix.model.blocks.transformer import Block, BlockSpec
from isopix.model.caches import Buffer, KVCache
from isopix.model.init import InitScheme, InitTable
from isopix.model.mlp import LayerNormSpec, MLPSpec, NormSpec, TwoLayerMLPSpec, two_layer_init


@register("mixer")
class MixerSpec(BlockSpec):
    """U = X + W2 GELU(W1 LN(X)); Y = U + mlp(LN(U)) with X [N D] (inductive biases of small isotropic nets,
    equations 2 and 3).

    W1 and W2 mix positions. Causally, hidden unit j stands at position floor(j N / units), and both are zero
    from later to earlier positions.
    """

    units: Size | None = None
    """Hidden units that mix positions; null: one per position."""
    norm: NormSpec = field(default_factory=LayerNormSpec)
    """Norm before both branches, and of the backbone's output."""
    mlp: MLPSpec = field(default_factory=lambda: TwoLayerMLPSpec(expansion=1))
    """MLP that mixes channels."""

    def label(self) -> str:
        tokens = f"{self.units} hidden units" if self.units else "1x"
        return f"MLP-Mixer, token MLP {tokens}, channel {self.mlp.label()}, {self.norm.label()}"

    def build(self, grid: Grid, width: int, causal: bool) -> "MixerBlock":
        return MixerBlock(self, grid, width, causal)

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        positions = grid.positions  # of causal matrices, the weights that are not zero count
        weights = (self.units or positions) * (positions + 1 if causal else 2 * positions)
        return 2 * width * weights + positions * self.mlp.flops_per_token(width)

    def init(self, scheme: InitScheme) -> InitTable:
        return {f"token_mlp.{key}": draw for key, draw in two_layer_init(scheme).items()}


class MixerBlock(Block):
    def __init__(self, spec: MixerSpec, grid: Grid, width: int, causal: bool):
        super().__init__()
        self.norm1 = spec.norm.build(width)
        self.token_mlp = TokenMLP(grid.positions, spec.units or grid.positions, causal)
        self.norm2 = spec.norm.build(width)
        self.mlp = spec.mlp.build(width)

    def forward(self, tokens: Tokens) -> Tokens:
        tokens = tokens + self.token_mlp(self.norm1(tokens))
        return tokens + self.mlp(self.norm2(tokens))

    def new_cache(self, positions: int) -> KVCache:
        return KVCache(Buffer(positions), Buffer(self.token_mlp.units))

    def forward_cached(self, tokens: Tokens, cache: KVCache) -> Tokens:
        tokens = tokens + self.token_mlp.forward_cached(self.norm1(tokens), cache)
        return tokens + self.mlp(self.norm2(tokens))


class TokenMLP(nn.Module):
    """positions -> units -> positions, for each channel, with biases."""

    def __init__(self, positions: int, units: int, causal: bool):
        super().__init__()
        self.positions, self.units, self.causal = positions, units, causal
        self.up = nn.Linear(positions, units)
        self.down = nn.Linear(units, positions)

    def forward(self, tokens: Tokens) -> Tokens:
        up, down = self._matrices()
        hidden = F.gelu(F.linear(rearrange(tokens, "b n d -> b d n"), up, self.up.bias))
        return rearrange(F.linear(hidden, down, self.down.bias), "b d n -> b n d")

    def forward_cached(self, tokens: Tokens, cache: KVCache) -> Tokens:
        """Return the outputs at the next positions; `cache` keeps tokens and complete hidden units."""
        up, down = self._matrices()
        begin, done = cache.first.count, cache.second.count
        past = cache.first.extend(tokens)
        end = cache.first.count
        complete = -(-end * self.units // self.positions)  # the number of units before position `end`
        hidden = F.gelu(up[done:complete, :end] @ past + self.up.bias[done:complete, None])
        hidden = cache.second.extend(hidden)
        return down[begin:end, :complete] @ hidden + self.down.bias[begin:end, None]

    def _matrices(self) -> tuple[Tensor, Tensor]:
        if not self.causal:
            return self.up.weight, self.down.weight
        position = torch.arange(self.positions, device=self.up.weight.device)
        unit = torch.arange(self.units, device=position.device) * self.positions // self.units
        return (
            self.up.weight.masked_fill(position > unit[:, None], 0.0),
            self.down.weight.masked_fill(unit > position[:, None], 0.0),
        )
