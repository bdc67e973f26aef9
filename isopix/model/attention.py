"""Multi-head self-attention, whole or one position at a time from a cache."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.types import Tokens

Heads = Float[Tensor, "B heads _ size"]


class Cache:
    """Keys and values of the positions that one attention layer has seen; room for all is taken with the
    first.
    """

    def __init__(self, positions: int):
        self.positions = positions
        self.seen = 0

    def extend(self, keys: Heads, values: Heads) -> tuple[Heads, Heads]:
        """Append new positions and return all that have been seen, the new ones included."""
        begin, self.seen = self.seen, self.seen + keys.shape[2]
        if begin == 0:
            batch, heads, _, size = keys.shape
            self.keys = keys.new_empty(batch, heads, self.positions, size)
            self.values = torch.empty_like(self.keys)
        self.keys[:, :, begin : self.seen] = keys
        self.values[:, :, begin : self.seen] = values
        return self.keys[:, :, : self.seen], self.values[:, :, : self.seen]

    def repeat(self, each: int) -> None:
        """Let every image go on `each` times, from the same past."""
        self.keys = self.keys.repeat_interleave(each, 0)
        self.values = self.values.repeat_interleave(each, 0)


class Attention(nn.Module):
    """softmax(q kT / sqrt(e)) v over all positions, or over those not later than one's own when `causal`.

    Query, key and value are one matrix [3D D], in this order, heads contiguous inside each. No dropout, no
    mask tensor.
    """

    def __init__(self, width: int, heads: int, causal: bool, bias: bool):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads {heads}")
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, tokens: Tokens) -> Tokens:
        q, k, v = self._project(tokens)
        return self._merge(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal))

    def step(self, tokens: Tokens, cache: Cache) -> Tokens:
        """The same answers for the next positions only: a first stretch of any length, then one at a time."""
        q, k, v = self._project(tokens)
        first = cache.seen == 0
        if not first and tokens.shape[1] != 1:
            raise ValueError(f"after the first stretch positions come one at a time, not {tokens.shape[1]}")
        k, v = cache.extend(k, v)
        return self._merge(F.scaled_dot_product_attention(q, k, v, is_causal=first))

    def _project(self, tokens: Tokens) -> tuple[Heads, Heads, Heads]:
        q, k, v = rearrange(self.qkv(tokens), "b n (three h e) -> three b h n e", three=3, h=self.heads)
        return q, k, v

    def _merge(self, heads: Heads) -> Tokens:
        return self.out(rearrange(heads, "b h n e -> b n (h e)"))
