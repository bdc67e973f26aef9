"""Multi-head self-attention, whole or one position at a time from a cache, and its weights to look at."""

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.types import Grid, PositionIndices, SelectedTokens, Tokens
from isopix.model.kv_cache import Pair

Heads = Float[Tensor, "B heads _ size"]
Weights = Float[Tensor, "B heads N N"]  # row: who looks; column: at whom; a row sums to 1


class Span(NamedTuple):
    """Among how many positions an attention looks, wherever it looks from: `grid` is all of them, a row or a
    column. `name` tells the attentions of one block apart.
    """

    grid: Grid
    name: str = ""


@runtime_checkable
class Attentive(Protocol):
    """A block that attends; `Backbone.attention` asks those that do, and no others."""

    def spans(self, grid: Grid) -> list[Span]:
        """Of each of its attentions, in their order."""

    def weights(self, tokens: Tokens) -> Iterator[Weights]:
        """Of each of its attentions, in their order, as they are when `tokens` enter the block."""


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
        return self._merge(_attended(*self._project(tokens), causal=self.causal))

    def asked(self, tokens: Tokens, places: PositionIndices) -> SelectedTokens:
        """What `forward` answers at these places alone; not for causal attention."""
        width, weight, bias = tokens.shape[-1], self.qkv.weight, self.qkv.bias
        own = torch.take_along_dim(tokens, places[..., None], 1)
        q = F.linear(own, weight[:width], None if bias is None else bias[:width])
        k, v = F.linear(tokens, weight[width:], None if bias is None else bias[width:]).chunk(2, -1)
        split = (rearrange(part, "b n (h e) -> b h n e", h=self.heads) for part in (q, k, v))
        return self._merge(_attended(*split, causal=False))

    def weights(self, tokens: Tokens) -> Weights:
        """softmax(q kT / sqrt(e)) itself, which `forward` never holds: in float32 or wider, 0 at what is not
        to be seen.
        """
        q, k, _ = self._project(tokens)
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ k.to(wide).mT / math.sqrt(q.shape[-1])
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        return scores.softmax(-1)

    def step(self, tokens: Tokens, cache: Pair) -> Tokens:
        """The same answers for the next positions only: a first stretch of any length, then one at a time.
        `cache` keeps keys and values.
        """
        q, k, v = self._project(tokens)
        first = cache.first.count == 0
        if not first and tokens.shape[1] != 1:
            raise ValueError(f"after the first stretch positions come one at a time, not {tokens.shape[1]}")
        k, v = cache.first.extend(k), cache.second.extend(v)
        return self._merge(F.scaled_dot_product_attention(q, k, v, is_causal=first))

    def _project(self, tokens: Tokens) -> tuple[Heads, Heads, Heads]:
        q, k, v = rearrange(self.qkv(tokens), "b n (three h e) -> three b h n e", three=3, h=self.heads)
        return q, k, v

    def _merge(self, heads: Heads) -> Tokens:
        return self.out(rearrange(heads, "b h n e -> b n (h e)"))


def _attended(q: Heads, k: Heads, v: Heads, *, causal: bool) -> Heads:
    # A CPU reads heads that lie apart more slowly than it copies them; a GPU does not mind.
    q, k, v = (part.contiguous() if part.is_cpu else part for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
