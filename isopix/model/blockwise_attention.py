"""Attention in blocks of scores: for training in bf16 on some CPUs.

PyTorch's kernel for CPUs needs AMX to be fast in bf16. On an EPYC with AVX-512 BF16 alone, the forward and
backward pass take 0.57 of its time for 1,024 causal positions, and half to an eighth for fewer positions.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

BLOCK_QUERIES = 256  # of causal attention: a block has no keys after its last query
BLOCK_SCORES = 2**22  # of all sequences and heads at a time
KEPT_SCORES = 2**25  # of a layer, up to which the backward pass does not compute them again: 64 MB in bf16

Rows = Float[Tensor, "BH _ size"]  # one row per sequence and head
Heads = Float[Tensor, "B heads _ size"]


def attend_in_blocks(q: Heads, k: Heads, v: Heads, *, causal: bool) -> Heads:
    """Return softmax(q kT / sqrt(e)) v, over the keys not after the query if `causal`.

    Scores and weights are rounded to the type of the heads; the softmax is computed in float32. The backward
    pass computes the weights again if they are more than KEPT_SCORES: memory grows with the number of
    positions, not with its square.
    """
    rows = (part.flatten(0, 1) for part in (q, k, v))
    attended: Rows = _BlockwiseAttention.apply(*rows, causal)  # type: ignore[no-untyped-call]
    return attended.view(q.shape)


class _Block(NamedTuple):
    """A part of the scores: these rows, queries and keys."""

    rows: slice
    queries: slice
    keys: slice


class _BlockwiseAttention(torch.autograd.Function):
    """The attention of `attend_in_blocks`, for sequences and heads as one axis."""

    @staticmethod
    def forward(ctx: Any, q: Rows, k: Rows, v: Rows, causal: bool) -> Rows:
        ctx.causal = causal
        attended, kept, keeps = torch.empty_like(q), [], _num_scores(q, k, causal) <= KEPT_SCORES
        for rows, queries, keys in _blocks(q, k, causal):
            weights = _weights(q[rows, queries], k[rows, keys], causal)
            torch.bmm(weights, v[rows, keys], out=attended[rows, queries])
            if keeps:
                kept.append(weights)
        ctx.save_for_backward(q, k, v, *kept)
        return attended

    @staticmethod
    def backward(ctx: Any, *gradients: Rows) -> tuple[Rows, Rows, Rows, None]:
        q, k, v, *kept = ctx.saved_tensors
        gradient, scale, dtype = gradients[0], _scale(q), q.dtype
        sums = torch.promote_types(dtype, torch.float32)
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k, dtype=sums), torch.zeros_like(v, dtype=sums)
        for number, (rows, queries, keys) in enumerate(_blocks(q, k, ctx.causal)):
            weights = kept[number] if kept else _weights(q[rows, queries], k[rows, keys], ctx.causal)
            dv[rows, keys] += weights.mT @ gradient[rows, queries]
            dweights = gradient[rows, queries] @ v[rows, keys].mT
            dscores = torch._softmax_backward_data(dweights, weights, -1, dtype)  # of scores times scale
            dq[rows, queries] = dscores @ k[rows, keys]
            dk[rows, keys] += dscores.mT @ q[rows, queries]
        return dq.mul_(scale), dk.mul_(scale).to(dtype), dv.to(dtype), None


def _blocks(q: Rows, k: Rows, causal: bool) -> Iterator[_Block]:
    """Yield blocks that cover all scores, but for those that are masked."""
    queries, keys = q.shape[1], k.shape[1]
    step = min(BLOCK_QUERIES if causal else max(1, BLOCK_SCORES // keys), queries)
    together = max(1, BLOCK_SCORES // (step * keys))
    for row in range(0, len(q), together):
        for first in range(0, queries, step):
            end = min(first + step, queries)
            yield _Block(slice(row, row + together), slice(first, end), slice(0, end if causal else keys))


def _num_scores(q: Rows, k: Rows, causal: bool) -> int:
    blocks = ((q[rows, queries], k[rows, keys]) for rows, queries, keys in _blocks(q, k, causal))
    return sum(len(some) * some.shape[1] * other.shape[1] for some, other in blocks)


def _weights(q: Rows, k: Rows, causal: bool) -> Float[Tensor, "BH queries keys"]:
    """Return the attention of a block's queries, the last ones of its keys if causal."""
    scores = torch.baddbmm(q.new_empty(()), q, k.mT, beta=0, alpha=_scale(q))
    if causal:
        count = q.shape[1]
        later = torch.ones(count, count, dtype=torch.bool, device=q.device).triu_(1)
        scores[..., -count:].masked_fill_(later, -math.inf)
    return scores.softmax(-1)


def _scale(q: Rows) -> float:
    return 1 / math.sqrt(q.shape[-1])
