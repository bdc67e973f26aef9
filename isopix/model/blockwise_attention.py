"""Attention in blocks of scores: for training and features in bf16 on some CPUs.

PyTorch's kernel needs AMX to be fast in bf16; with AVX-512 BF16 alone, this takes half of its time for 1,024
positions and a fifth for 64 (`python bench/run.py --only attention`).
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

BLOCK_QUERIES = 256  # of causal attention: a block has no keys after its last query
BLOCK_SCORES = 2**22  # of all sequences and heads at a time
KEPT_SCORES = 2**25  # of a layer, up to which the backward pass does not compute them again: 64 MB in bf16

Rows = Float[Tensor, "BH _ size"]  # one row per sequence and head
Heads = Float[Tensor, "B heads _ size"]


def attend_in_blocks(q: Heads, k: Heads, v: Heads, *, causal: bool, window: int | None = None) -> Heads:
    """Return softmax(q kT / sqrt(e)) v, over the keys not after the query if `causal`, of which the last
    `window`.

    Scores and weights are rounded to the heads' type; softmax is in float32. Beyond KEPT_SCORES weights, the
    backward pass computes them again: memory grows with the number of positions, not with its square.
    """
    rows = (part.flatten(0, 1) for part in (q, k, v))
    attended: Rows = _attend(*rows, causal, window)[0]
    return attended.view(q.shape)


class _Block(NamedTuple):
    rows: slice
    queries: slice
    keys: slice


# Both passes are operators, which compiled code calls as they are: as compiled, they take twice the time.
@torch.library.custom_op("isopix::attend_in_blocks", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, window: int | None) -> list[Tensor]:
    attended, kept = torch.empty_like(q), list[Tensor]()
    keeps = bool(_kept_shapes(q, k, causal, window))
    for rows, queries, keys in _blocks(q, k, causal, window):
        weights = _weights(q[rows, queries], k[rows, keys], causal, window)
        torch.bmm(weights, v[rows, keys], out=attended[rows, queries])
        if keeps:
            kept.append(weights)
    return [attended, *kept]


@torch.library.custom_op("isopix::attend_in_blocks_backward", mutates_args=())
def _gradients(
    gradient: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    kept: list[Tensor],
    causal: bool,
    window: int | None,
) -> list[Tensor]:
    scale, dtype = _scale(q), q.dtype
    sums = torch.promote_types(dtype, torch.float32)
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(k, dtype=sums), torch.zeros_like(v, dtype=sums)
    for number, (rows, queries, keys) in enumerate(_blocks(q, k, causal, window)):
        weights = kept[number] if kept else _weights(q[rows, queries], k[rows, keys], causal, window)
        dv[rows, keys] += weights.mT @ gradient[rows, queries]
        dweights = gradient[rows, queries] @ _transposed(v[rows, keys])
        dscores = torch._softmax_backward_data(dweights, weights, -1, dtype)  # of scores times scale
        dq[rows, queries] = dscores @ k[rows, keys]
        dk[rows, keys] += dscores.mT @ q[rows, queries]
    return [dq.mul_(scale), dk.mul_(scale).to(dtype), dv.to(dtype)]


@_attend.register_fake
def _attend_shapes(q: Tensor, k: Tensor, v: Tensor, causal: bool, window: int | None) -> list[Tensor]:
    return [torch.empty_like(q), *map(q.new_empty, _kept_shapes(q, k, causal, window))]


@_gradients.register_fake
def _gradient_shapes(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, kept: list[Tensor], *settings: Any
) -> list[Tensor]:
    return [torch.empty_like(each) for each in (q, k, v)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    q, k, v, *ctx.settings = inputs
    ctx.set_materialize_grads(False)  # those of the weights
    ctx.save_for_backward(q, k, v, *output[1:])


def _backward(ctx: Any, gradients: list[Tensor | None]) -> tuple[Tensor, Tensor, Tensor, None, None]:
    assert gradients[0] is not None, "an attention is used"
    q, k, v, *kept = ctx.saved_tensors
    dq, dk, dv = _gradients(gradients[0].contiguous(), q, k, v, kept, *ctx.settings)
    return dq, dk, dv, None, None


_attend.register_autograd(_backward, setup_context=_save)


def _blocks(q: Rows, k: Rows, causal: bool, window: int | None) -> Iterator[_Block]:
    queries, keys = q.shape[1], k.shape[1]
    step = min(BLOCK_QUERIES if causal else max(1, BLOCK_SCORES // keys), queries, window or queries)
    together = max(1, BLOCK_SCORES // (step * keys))
    for row in range(0, len(q), together):
        for first in range(0, queries, step):
            end = min(first + step, queries)
            seen = slice(max(0, first - window + 1) if window else 0, end if causal else keys)
            yield _Block(slice(row, row + together), slice(first, end), seen)


def _kept_shapes(q: Rows, k: Rows, causal: bool, window: int | None) -> list[tuple[int, ...]]:
    """Return the shape of the weights of each block that the backward pass keeps: of all, or of none."""
    blocks = _blocks(q, k, causal, window)
    shapes = [(*q[rows, queries].shape[:2], k[rows, keys].shape[1]) for rows, queries, keys in blocks]
    return shapes if sum(map(math.prod, shapes)) <= KEPT_SCORES else []


def _weights(q: Rows, k: Rows, causal: bool, window: int | None) -> Float[Tensor, "BH queries keys"]:
    if not causal:
        return torch.baddbmm(q.new_empty(()), q, _transposed(k), beta=0, alpha=_scale(q)).softmax(-1)
    seen = causal_mask(q.shape[1], k.shape[1], window, q.device)
    mask = q.new_zeros(seen.shape).masked_fill_(~seen, -math.inf)  # added in less time than another pass
    return torch.baddbmm(mask, q, _transposed(k), alpha=_scale(q)).softmax(-1)


def causal_mask(
    queries: int, keys: int, window: int | None, device: torch.device
) -> Bool[Tensor, "queries keys"]:
    """Return whether each of the last queries sees each key: itself and those before, the last `window`."""
    before = torch.arange(keys - queries, keys, device=device)[:, None] - torch.arange(keys, device=device)
    return (before >= 0) & (before < (window or keys))


def _transposed(rows: Rows) -> Float[Tensor, "BH size _"]:
    """Return the rows as columns; of a part of the keys, a product would copy them column by column."""
    return rows.contiguous().mT


def _scale(q: Rows) -> float:
    return 1 / math.sqrt(q.shape[-1])
