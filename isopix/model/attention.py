"""Multi-head self-attention, of whole sequences or position by position with a cache, and its weights."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.device import has_matrix_units, lacks_matrix_units
from isopix.core.types import Grid, PositionIndices, SelectedTokens, Tokens
from isopix.model.blockwise_attention import attend_in_blocks, causal_mask
from isopix.model.caches import AttentionCache, SharedRows
from isopix.model.mlp import inverse_rms
from isopix.model.positions import Heads, Rotation

FEW_SEEN = 512  # keys at most, of which a CPU with AMX trains faster in blocks
QK_EPSILON = 1e-6  # added to the mean square of queries and keys
EVERY = slice(None)  # of the positions
Scores = Float[Tensor, "B heads _ _"]  # row: query; column: key
Seen = Bool[Tensor, "B 1 N N"]  # whether a position (row) sees another (column)
AttentionWeights = Float[Tensor, "B heads N N"]  # row: query; column: key; a row sums to 1


class AttentionAxis(NamedTuple):
    """The positions (all, a row or a column) that an attention covers; `name` is unique in its block."""

    grid: Grid
    name: str = ""


class Attention(nn.Module):
    """softmax(q kT / sqrt(e)) v over all positions, or over those not after the query if `causal`.

    Query, key and value are one matrix [3D D], heads contiguous inside each; in training, `dropout` of
    weights. With `qk_norm_scale`, q and k are normalized to mean square 1 and their products have this scale
    instead of 1 / sqrt(e); a `rotation`, if set, turns both; of causal attention, a `window`, if set, is the
    number of positions seen.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        causal: bool,
        bias: bool,
        qkv_bias: bool | None = None,
        dropout: float = 0.0,
        qk_norm_scale: float | None = None,
    ):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads {heads}")
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.qk_norm_scale = qk_norm_scale
        self.rotation: Rotation | None = None
        self.window: int | None = None
        self.qkv = nn.Linear(width, 3 * width, bias=bias if qkv_bias is None else qkv_bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, tokens: Tokens, seen: Seen | None = None) -> Tokens:
        """Return the outputs; `seen` restricts attention to all positions."""
        q, k, v = self._project(tokens)
        dropout = self._dropout()
        if seen is not None:
            return self._merge(F.scaled_dot_product_attention(q, k, v, seen, dropout))
        return self._merge(_attend(q, k, v, causal=self.causal, window=self.window, dropout=dropout))

    def forward_queries(self, tokens: Tokens, positions: PositionIndices) -> SelectedTokens:
        """Return the outputs of `forward` at these positions only; not for causal attention."""
        width, weight, bias = tokens.shape[-1], self.qkv.weight, self.qkv.bias
        queries = torch.take_along_dim(tokens, positions[..., None], 1)
        q = F.linear(queries, weight[:width], None if bias is None else bias[:width])
        k, v = F.linear(tokens, weight[width:], None if bias is None else bias[width:]).chunk(2, -1)
        q, k, v = (rearrange(part, "b n (h e) -> b h n e", h=self.heads) for part in (q, k, v))
        q, k = self._scaled(self._normed(q, positions)), self._normed(k)
        return self._merge(_attend(q, k, v, causal=False, window=None, dropout=self._dropout()))

    def weights(self, tokens: Tokens) -> AttentionWeights:
        """Return softmax(q kT / sqrt(e)), in float32 or wider; 0 after the query if causal."""
        q, k, _ = self._project(tokens)
        dtype = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(dtype) @ k.to(dtype).mT / math.sqrt(q.shape[-1])
        if self.causal:
            seen = causal_mask(scores.shape[-2], scores.shape[-1], self.window, scores.device)
            scores = scores.masked_fill(~seen, -math.inf)
        return scores.softmax(-1)

    def forward_cached(self, tokens: Tokens, cache: AttentionCache) -> Tokens:
        """Return `forward` at the next positions: first a run of any length, then single ones."""
        begin, length = cache.num_positions, tokens.shape[1]
        if begin and length != 1:
            raise ValueError(f"after the first call positions come one at a time, not {length}")
        q, k, v = self._project(tokens, slice(begin, begin + length))
        k, v = cache.first.extend(k), cache.second.extend(v)
        if begin == 0:
            attended = _attend_at_once(q.to(k.dtype), k, v, causal=True, window=self.window)
        else:
            seen = slice(-(self.window or 0), None)
            shared = cache.shared and cache.shared.last((self.window or begin + 1) - k.shape[-2])
            k, v = k[..., seen, :], v[..., seen, :]
            attended = _attend_shared(q, shared, k, v) if shared else _attend_from_one(q, k, v)
        return self.out(attended.transpose(1, 2).reshape(tokens.shape).to(tokens.dtype))

    def _project(self, tokens: Tokens, positions: slice = EVERY) -> tuple[Heads, Heads, Heads]:
        batch, length, width = tokens.shape
        # Views, since einops takes longer than the work for a single position.
        rows = self.qkv(tokens).view(batch, length, 3, self.heads, width // self.heads)
        both, v = rows.permute(2, 0, 3, 1, 4).split([2, 1])
        q, k = self._normed(both, positions).unbind()
        return self._scaled(q), k, v[0]

    def _normed(self, heads: Heads, positions: slice | PositionIndices = EVERY) -> Heads:
        """Return queries, keys or both, normalized and rotated if they are to be."""
        if self.qk_norm_scale is not None:
            heads = _of_unit_rms(heads)
        return heads if self.rotation is None else self.rotation(heads, positions)

    def _scaled(self, q: Heads) -> Heads:
        return q if self.qk_norm_scale is None else q * (self.qk_norm_scale * math.sqrt(q.shape[-1]))

    def _dropout(self) -> float:
        return self.dropout if self.training else 0.0

    def _merge(self, heads: Heads) -> Tokens:
        return self.out(rearrange(heads, "b h n e -> b n (h e)"))


def _of_unit_rms(heads: Heads) -> Heads:
    """Return heads divided by the root mean square of each; in bf16, its inverse is rounded, too."""
    return heads * inverse_rms(heads, QK_EPSILON).to(heads.dtype)


def _attend_from_one(q: Heads, k: Heads, v: Heads) -> Heads:
    if not _multiplies_unrounded(k):
        return F.scaled_dot_product_attention(q.to(k.dtype), k, v)
    if not torch.compiler.is_compiling():
        return F.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype))
    return _weighted_sum(_products(q / math.sqrt(q.shape[-1]), k).softmax(-1), v)


def _attend_shared(q: Heads, prompt: SharedRows, k: Heads, v: Heads) -> Heads:
    """Attend to the prompt, read once for all of its sequences, and to the positions after it."""
    q = q / math.sqrt(q.shape[-1])
    by_prompt = q.reshape(len(prompt.keys), -1, *q.shape[1:]).squeeze(3).transpose(1, 2)  # [P heads B/P size]
    to_prompt = _products(by_prompt, prompt.keys).transpose(1, 2).reshape(*q.shape[:3], -1)
    scores = torch.cat([to_prompt, _products(q, k)], -1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    to_prompt, to_own = weights[..., : -k.shape[2]], weights[..., -k.shape[2] :]
    by_prompt = to_prompt.reshape(len(prompt.keys), -1, *to_prompt.shape[1:]).squeeze(3).transpose(1, 2)
    of_prompt = _weighted_sum(by_prompt, prompt.values).transpose(1, 2).reshape(q.shape)
    return of_prompt + _weighted_sum(to_own, v)


def _products(q: Heads, k: Heads) -> Scores:
    if not _multiplies_unrounded(k):
        return q.to(k.dtype) @ k.mT
    return (q * k).sum(-1)[..., None, :] if torch.compiler.is_compiling() else q @ k.to(q.dtype).mT


def _weighted_sum(weights: Scores, v: Heads) -> Heads:
    if not _multiplies_unrounded(v):
        return weights.to(v.dtype) @ v
    if torch.compiler.is_compiling():
        return (weights.mT * v).sum(-2, keepdim=True)
    return weights @ v.to(weights.dtype)


def _multiplies_unrounded(rows: Heads) -> bool:
    """Whether bf16 keys and values are multiplied in the query's type: several times faster without AMX."""
    return rows.is_cpu and rows.dtype == torch.bfloat16 and not has_matrix_units()


def _attend(q: Heads, k: Heads, v: Heads, *, causal: bool, window: int | None, dropout: float) -> Heads:
    # A CPU attends to strided heads more slowly than it copies them; a GPU does not.
    q, k, v = (part.contiguous() if part.is_cpu else part for part in (q, k, v))
    if not dropout and _is_faster_in_blocks(q, window or q.shape[-2]):
        return attend_in_blocks(q, k, v, causal=causal, window=window)
    return _attend_at_once(q, k, v, causal=causal, window=window, dropout=dropout)


def _attend_at_once(
    q: Heads, k: Heads, v: Heads, *, causal: bool, window: int | None, dropout: float = 0.0
) -> Heads:
    if window is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)
    parts: list[Heads] = []
    for first in range(0, q.shape[-2], window):
        queries, keys = slice(first, first + window), slice(max(0, first - window), first + window)
        part, seen = q[..., queries, :], k[..., keys, :]
        mask = causal_mask(part.shape[-2], seen.shape[-2], window, q.device)
        parts.append(F.scaled_dot_product_attention(part, seen, v[..., keys, :], mask, dropout))
    return torch.cat(parts, -2)


def _is_faster_in_blocks(q: Heads, seen: int) -> bool:
    """Whether a CPU attends in bf16 and may round scores: for gradients, or if allowed."""
    if not (q.is_cpu and q.dtype == torch.bfloat16):
        return False
    if q.requires_grad and torch.is_grad_enabled():
        return lacks_matrix_units() or seen <= FEW_SEEN
    # The compiler cannot trace a context variable; no features are compiled.
    return not torch.compiler.is_compiling() and _rounds.get() and lacks_matrix_units()


_rounds: ContextVar[bool] = ContextVar("rounds", default=False)


@contextmanager
def rounded_scores() -> Iterator[None]:
    """Let attention in bf16 round its scores to bf16 without gradients, too, where that is faster."""
    token = _rounds.set(True)
    try:
        yield
    finally:
        _rounds.reset(token)
