"""Attention distance, entropy, maps and rollout, over positions, the last `grid.positions` of all tokens.

Distances are in pixels of the images that the network reads. In an autoregressive network a token is
located at the position that it predicts, not at the pixel that it reads.
"""

import math
from collections.abc import Iterable
from functools import reduce
from typing import Final, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.types import Grid, Images
from isopix.model.attention import AttentionAxis, AttentionWeights
from isopix.model.backbone import Backbone
from isopix.model.network import Network

CLASS_TOKEN: Final = "class"  # stands for a query position (row, column) where the query is the class token
MAX_WEIGHTS = 2**22  # attention weights per head that one batch may hold: 4 images of 1,024 positions

TokenWeights = Float[Tensor, "B heads T T"]  # of prefix tokens and positions
PerHead = Float[Tensor, "attentions heads B"]
WeightRows = Float[Tensor, "*rows N"]


class QueryAttention(NamedTuple):
    """Attention of query tokens to all positions, whose maps sum to 1: by head, by rollout, and uniform."""

    heads: Float[Tensor, "queries attentions heads N"]
    rollout: Float[Tensor, "queries N"]
    uniform_heads: Float[Tensor, "queries attentions N"]
    uniform_rollout: Float[Tensor, "queries N"]


def position_distances(grid: Grid, patch_size: int = 1) -> Float[Tensor, "N N"]:
    """Return the Euclidean distance between the centers of each pair of positions, in pixels."""
    centers = torch.cartesian_prod(torch.arange(grid.rows), torch.arange(grid.cols)).float()
    return patch_size * torch.cdist(centers, centers, compute_mode="donot_use_mm_for_euclid_dist")


def drop_prefix_tokens(
    weights: TokenWeights, num_prefix_tokens: int, *, renormalize: bool = True
) -> AttentionWeights:
    """Return the attention between positions, whose rows sum to 1 again.

    Without `renormalize` they do not, as in the code commonly used for the figure of the Vision Transformer
    paper, where attention to the class token counts as distance 0.
    """
    between = weights[..., num_prefix_tokens:, num_prefix_tokens:]
    return _normalize_rows(between) if num_prefix_tokens and renormalize else between


def attention_distance(
    weights: TokenWeights, grid: Grid, *, patch_size: int = 1, renormalize: bool = True
) -> Float[Tensor, "B heads"]:
    """Return sum_j A_ij |p_i - p_j|, averaged over i (Vision Transformer, section 4.5 and figure 7)."""
    between = drop_prefix_tokens(weights, weights.shape[-1] - grid.positions, renormalize=renormalize)
    distances = position_distances(grid, patch_size).to(between)
    return torch.einsum("bhij,ij->bh", between, distances) / grid.positions


def uniform_attention_distance(grid: Grid, *, patch_size: int = 1, causal: bool = False) -> float:
    """Return the distance of uniform attention, to positions up to the query's own if `causal`, else to all.

    Over a large square it tends to 0.5214 of its side.
    """
    distances = position_distances(grid, patch_size).double()
    visible = torch.arange(1, grid.positions + 1)
    return float((distances.tril().sum(1) / visible if causal else distances).mean())


def attention_entropy(weights: TokenWeights, grid: Grid) -> Float[Tensor, "B heads"]:
    """Return the entropy in nats of the attention to positions, averaged over the positions that attend."""
    between = drop_prefix_tokens(weights, weights.shape[-1] - grid.positions)
    return torch.special.entr(between).sum(-1).mean(-1)


def uniform_attention_entropy(grid: Grid, *, causal: bool = False) -> float:
    """Return the entropy of uniform attention in nats: ln N, or if `causal` the mean of ln 1 to ln N."""
    allowed = range(1, grid.positions + 1) if causal else (grid.positions,)
    return math.fsum(map(math.log, allowed)) / len(allowed)


@torch.no_grad()
def attention_per_head(
    network: Network, images: Images, *, patch_size: int, renormalize: bool = True
) -> tuple[PerHead, PerHead]:
    """Return attention distances in pixels and entropies in nats of every head on every unmasked image."""
    grid = network.backbone.grid
    batches = list[Float[Tensor, "2 attentions B heads"]]()
    for batch in torch.split(images, max(1, MAX_WEIGHTS // grid.positions**2)):
        distances, entropies = list[Tensor](), list[Tensor]()
        for weights in network.backbone.attention_weights(network.inputs_of(batch.to(network.device))):
            measured = attention_distance(weights, grid, patch_size=patch_size, renormalize=renormalize)
            distances.append(measured)
            entropies.append(attention_entropy(weights, grid))
        batches.append(torch.stack([torch.stack(distances), torch.stack(entropies)]).cpu())
    distance, entropy = torch.cat(batches, 2).mT.contiguous()
    return distance, entropy


@torch.no_grad()
def attention_from(
    network: Network, image: Images, queries: Int[Tensor, " queries"], *, causal: bool = False
) -> QueryAttention:
    """Return the attention from these tokens, prefix tokens first, of a batch of one image."""
    backbone = network.backbone
    first = backbone.num_prefix_tokens
    maps: list[Tensor] = []

    def recorded() -> Iterable[AttentionWeights]:
        for weights in backbone.attention_weights(network.inputs_of(image.to(network.device))):
            maps.append(_normalize_rows(weights[0, :, queries, first:]).cpu())
            yield weights

    rollout = _normalize_rows(attention_rollout(recorded())[0, queries, first:]).cpu()
    uniform = [uniform_attention(backbone, axis, causal=causal) for _, axis in backbone.attention_axes()]
    uniform_rollout = attention_rollout(each[None, None] for each in uniform)[0]
    return QueryAttention(
        rearrange(maps, "attentions heads queries n -> queries attentions heads n"),
        rollout,
        torch.stack([_normalize_rows(each[queries, first:]) for each in uniform], 1),
        _normalize_rows(uniform_rollout[queries, first:]),
    )


def uniform_attention(backbone: Backbone, axis: AttentionAxis, *, causal: bool) -> Float[Tensor, "T T"]:
    """Return the weights of an attention that attends equally to all tokens that it may attend to."""
    allowed = torch.ones(2 * [backbone.num_prefix_tokens + backbone.grid.positions])
    if axis.grid != backbone.grid:  # that of a row or of a column; there are no prefix tokens
        sides = zip(backbone.grid, axis.grid, strict=True)
        allowed = torch.kron(*(torch.ones(n, n) if n == own else torch.eye(n) for n, own in sides))
    return _normalize_rows(allowed.tril() if causal else allowed)


def attention_rollout(layers: Iterable[AttentionWeights]) -> Float[Tensor, "B N N"]:
    """Return the product over layers of (mean over heads + identity) / 2 (Abnar and Zuidema 2020, section 3).

    MLPs, values and norms are ignored: rollout shows what can flow, not what is used.
    """
    means = (weights.mean(1) for weights in layers)
    steps = ((mean + torch.eye(mean.shape[-1]).to(mean)) / 2 for mean in means)
    return reduce(lambda before, step: step @ before, steps)


def _normalize_rows(weights: WeightRows) -> WeightRows:
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
