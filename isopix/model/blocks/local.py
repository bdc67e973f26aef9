"""A transformer block behind a depthwise convolution of the nearest positions."""

from collections.abc import Iterator
from typing import ClassVar

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.registry import register
from isopix.core.types import Grid, Tokens
from isopix.model.attention import AttentionCache, AttentionWeights, KVCache
from isopix.model.blocks.transformer import TransformerBlock, TransformerSpec
from isopix.model.init import InitScheme, InitTable, Zeros

ROWS, COLS = 3, 5  # of a causal convolution, the last row ends at the position itself; else it is the center


@register("local_transformer")
class LocalTransformerSpec(TransformerSpec):
    """The transformer block of h + conv(h): a depthwise convolution of 3 rows x 5 columns, zero at first,
    without bias. Causally, two rows above the position, and what is before it in its own.
    """

    accepts_subsets: ClassVar[bool] = False

    def label(self) -> str:
        return super().label().replace("transformer", "transformer with local convolution", 1)

    def build(self, grid: Grid, width: int, causal: bool) -> "LocalTransformerBlock":
        return LocalTransformerBlock(self, grid, width, causal)

    def flops(self, grid: Grid, width: int, causal: bool) -> int:
        return super().flops(grid, width, causal) + 2 * grid.positions * width * len(taps(causal))

    def init(self, scheme: InitScheme) -> InitTable:
        return {**super().init(scheme), "local": Zeros()}


def taps(causal: bool) -> list[tuple[int, int]]:
    """Return the (row, column) offsets of the convolution's taps in raster order."""
    first = 1 - ROWS if causal else -(ROWS // 2)
    every = [(row, col - COLS // 2) for row in range(first, first + ROWS) for col in range(COLS)]
    return [tap for tap in every if tap <= (0, 0)] if causal else every


class LocalTransformerBlock(TransformerBlock):
    def __init__(self, spec: LocalTransformerSpec, grid: Grid, width: int, causal: bool):
        super().__init__(spec, width, causal)
        self.local = DepthwiseConv(grid, width, causal)

    def forward(self, tokens: Tokens) -> Tokens:
        return super().forward(tokens + self.local(tokens))

    @property
    def supports_forward_at(self) -> bool:
        return False

    def attention_weights(self, tokens: Tokens) -> Iterator[AttentionWeights]:
        yield from super().attention_weights(tokens + self.local(tokens))

    def new_cache(self, positions: int) -> "LocalCache":
        return LocalCache(positions)

    def forward_cached(self, tokens: Tokens, cache: KVCache) -> Tokens:
        assert isinstance(cache, LocalCache), "from new_cache"
        return super().forward_cached(tokens + self.local.forward_cached(tokens, cache), cache)


class LocalCache(AttentionCache):
    """Keys, values, and the tokens that enter the convolution, on its padded grid [B rows + 2 cols + 4 D]."""

    padded: Tensor | None = None

    @property
    def num_bytes(self) -> int:
        return super().num_bytes + (0 if self.padded is None else self.padded.nbytes)

    def repeat_batch(self, times: int) -> None:
        super().repeat_batch(times)
        if self.padded is not None:
            self.padded = self.padded.repeat_interleave(times, 0)


class DepthwiseConv(nn.Module):
    """3x5 over the grid of tokens, zero padding, no bias; weight [D taps]."""

    def __init__(self, grid: Grid, width: int, causal: bool):
        super().__init__()
        self.grid, self.causal, self.taps = grid, causal, taps(causal)
        self.weight = nn.Parameter(torch.zeros(width, len(self.taps)))

    def forward(self, tokens: Tokens) -> Tokens:
        pixels = rearrange(tokens, "b (h w) d -> b d h w", h=self.grid.rows)
        weight = F.pad(self.weight, (0, ROWS * COLS - len(self.taps)))  # zero of later positions
        weight = rearrange(weight, "d (h w) -> d 1 h w", h=ROWS)
        above, side = (ROWS - 1 if self.causal else ROWS // 2), COLS // 2
        padded = F.pad(pixels, (side, side, above, ROWS - 1 - above))
        with torch.autocast(tokens.device.type, enabled=False):  # in bf16 a CPU takes three times as long
            output = F.conv2d(padded, weight, groups=len(weight))
        return rearrange(output, "b d h w -> b (h w) d")

    def forward_cached(self, tokens: Tokens, cache: LocalCache) -> Tokens:
        """Return `forward` at the next positions: first a run of any length, then single ones."""
        if cache.padded is None:
            whole = F.pad(tokens, (0, 0, 0, self.grid.positions - tokens.shape[1]))
            pixels = rearrange(whole, "b (h w) d -> b h w d", h=self.grid.rows)
            cache.padded = F.pad(pixels, (0, 0, COLS // 2, COLS // 2, ROWS - 1, 0))
            return self(whole)[:, : tokens.shape[1]]
        row, col = divmod(cache.num_positions, self.grid.cols)
        cache.padded[:, row + ROWS - 1, col + COLS // 2] = tokens[:, 0]
        near = cache.padded[:, row : row + ROWS, col : col + COLS].flatten(1, 2)[:, : len(self.taps)]
        return (near * self.weight.T).sum(1, keepdim=True)
