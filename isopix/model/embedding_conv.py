"""A depthwise convolution that adds the embeddings of the nearest positions to each."""

import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F

from isopix.core.types import Grid, Tokens
from isopix.model.caches import KVCache

ROWS, COLS = 3, 5  # of a causal convolution, the last row ends at the position itself; else it is the center


def taps(causal: bool) -> list[tuple[int, int]]:
    """Return the (row, column) offsets of the convolution's taps in raster order."""
    first = 1 - ROWS if causal else -(ROWS // 2)
    every = [(row, col - COLS // 2) for row in range(first, first + ROWS) for col in range(COLS)]
    return [tap for tap in every if tap <= (0, 0)] if causal else every


class ConvCache(KVCache):
    """The embeddings so far, on the convolution's padded grid [B rows + 2 cols + 4 D]."""

    def __init__(self) -> None:
        self.count, self.padded = 0, torch.empty(0)

    @property
    def num_bytes(self) -> int:
        return self.padded.nbytes

    def repeat_batch(self, times: int) -> None:
        self.padded = self.padded.repeat_interleave(times, 0)


class EmbeddingConv(nn.Module):
    """h + conv(h): 3x5 over the grid, zero padding, no bias; weight [D taps], zero at first."""

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
            near = F.conv2d(padded, weight, groups=len(weight))
        return tokens + rearrange(near, "b d h w -> b (h w) d")

    def forward_cached(self, tokens: Tokens, cache: ConvCache) -> Tokens:
        """Return `forward` at the next positions: first a run of any length, then single ones."""
        begin, cache.count = cache.count, cache.count + tokens.shape[1]
        if begin == 0:
            whole = F.pad(tokens, (0, 0, 0, self.grid.positions - tokens.shape[1]))
            pixels = rearrange(whole, "b (h w) d -> b h w d", h=self.grid.rows)
            cache.padded = F.pad(pixels, (0, 0, COLS // 2, COLS // 2, ROWS - 1, 0))
            return self(whole)[:, : tokens.shape[1]]
        row, col = divmod(begin, self.grid.cols)
        cache.padded[:, row + ROWS - 1, col + COLS // 2] = tokens[:, 0]
        near = cache.padded[:, row : row + ROWS, col : col + COLS].flatten(1, 2)[:, : len(self.taps)]
        return tokens + (near * self.weight.T).sum(1, keepdim=True)
