"""Attention looked at: how far every head looks, where it looks from one position, and what the layers pass
on together.

Positions are told apart from leading tokens, which stand for no place (a class token): of all tokens the last
`grid.positions` are positions. Distances are in pixels of the images that the network reads: a position is
`cell` of them wide. In a shifted sequence (an autoregressive network) a token's place is that of the pixel
that it answers, not of the one that it was given, which stands one place before.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.types import Grid, Images
from isopix.model.attention import AttentionWeights
from isopix.model.network import Network

CLASS: Final = "class"  # what is kept in the place of a position, where it is the class token that looks
ENTRIES = 2**22  # weights of one head that a pass holds: four images of 1,024 positions

Distances = Float[Tensor, "N N"]
AllTokens = Float[Tensor, "B heads T T"]  # of positions, and leading tokens before them
ByHead = Float[Tensor, "attentions heads B"]
Flow = Float[Tensor, "B N N"]
Rows = Float[Tensor, "*rows N"]  # of any weights


class Gaze(NamedTuple):
    """Where one image is looked at from some of its tokens: by every head of every attention, and by all of
    them in turn (rollout). What leading tokens receive is left out, and the rest sums to 1.
    """

    heads: Float[Tensor, "queries attentions heads N"]
    rollout: Float[Tensor, "queries N"]


def distances(grid: Grid, cell: int = 1) -> Distances:
    """Pixels between the centres of each two positions."""
    places = torch.cartesian_prod(torch.arange(grid.rows), torch.arange(grid.cols)).float()
    return cell * torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")


def placed(weights: AllTokens, leading: int, *, renormalise: bool = True) -> AttentionWeights:
    """Attention of positions to positions alone: without the rows and columns of leading tokens.

    Rows sum to 1 again; without `renormalise`, to what was not given to leading tokens, as in the code that
    the figure of the Vision Transformer paper is usually drawn with. There what a head gives to the class
    token counts as distance 0.
    """
    among = weights[..., leading:, leading:]
    return _whole(among) if leading and renormalise else among


def distance(
    weights: AllTokens, grid: Grid, *, cell: int = 1, renormalise: bool = True
) -> Float[Tensor, "B heads"]:
    """sum_j A_ij |p_i - p_j|, mean over the positions i, of each head and image (Vision Transformer, section
    4.5 and figure 7).
    """
    among = placed(weights, weights.shape[-1] - grid.positions, renormalise=renormalise)
    return torch.einsum("bhij,ij->bh", among, distances(grid, cell).to(among)) / grid.positions


def uniform_distance(grid: Grid, *, cell: int = 1, causal: bool = False) -> float:
    """The distance of a head that looks everywhere alike; if `causal`, at every position not after its own.

    Over the whole grid it is sum (R - |r|) (C - |c|) sqrt(r^2 + c^2) / (R C)^2 over offsets -R < r < R and
    -C < c < C, which tends to 0.5214 of the side of a square.
    """
    if causal:
        seen = torch.arange(1, grid.positions + 1)
        return float((distances(grid, cell).double().tril().sum(1) / seen).mean())
    rows, cols = (torch.arange(1 - side, side).double() for side in grid)
    pairs = torch.outer(grid.rows - rows.abs(), grid.cols - cols.abs())
    return float(cell * (pairs * torch.hypot(rows[:, None], cols)).sum() / grid.positions**2)


@torch.no_grad()
def distance_by_head(
    network: Network,
    images: Images,
    *,
    cell: int,
    renormalise: bool = True,
    done: Callable[[int], None] = lambda images: None,
) -> ByHead:
    """The distance of every head on every image, with nothing hidden; `done` is told how many are read.

    One attention of a few images is held at a time. Raises ValueError for no images, or blocks that do not
    attend.
    """
    refuse_blind(network)
    if not len(images):
        raise ValueError("there are no images to look at")
    grid, parts, count = network.backbone.grid, [], 0
    device = network.device
    batch = max(1, ENTRIES // grid.positions**2)
    for start in range(0, len(images), batch):
        part = images[start : start + batch]
        found = [
            distance(weights, grid, cell=cell, renormalise=renormalise)
            for weights in network.backbone.attention_weights(network.inputs_of(part.to(device)))
        ]
        parts.append(torch.stack(found).mT.cpu())
        count += len(part)
        done(count)
    return torch.cat(parts, -1)


@torch.no_grad()
def gaze(network: Network, image: Images, tokens: Int[Tensor, " queries"]) -> Gaze:
    """Where the one image of a batch is looked at from these of all its tokens, leading ones first. Raises
    ValueError for blocks that do not attend.
    """
    refuse_blind(network)
    looked: list[Tensor] = []
    backbone = network.backbone
    first = backbone.num_prefix_tokens

    def kept() -> Iterable[AttentionWeights]:
        for weights in backbone.attention_weights(network.inputs_of(image.to(network.device))):
            looked.append(_whole(weights[0, :, tokens, first:]).cpu())
            yield weights

    passed = _whole(rollout(kept())[0, tokens, first:]).cpu()
    return Gaze(
        rearrange(torch.stack(looked), "attentions heads queries n -> queries attentions heads n"), passed
    )


def rollout(layers: Iterable[AttentionWeights]) -> Flow:
    """What reaches each token of each through all layers: the product of (mean over heads + identity) / 2,
    the identity standing for the residual stream (Abnar and Zuidema 2020, section 3).

    Rows sum to 1. MLPs, values and norms are left out: it says what can flow, not what is used. Raises
    ValueError for no layers.
    """
    flow: Tensor | None = None
    for weights in layers:
        mean = weights.mean(1)
        step = (mean + torch.eye(mean.shape[-1], device=mean.device, dtype=mean.dtype)) / 2
        flow = step if flow is None else step @ flow
    if flow is None:
        raise ValueError("there are no layers whose attention could be multiplied")
    return flow


def refuse_blind(network: Network) -> None:
    """Raises ValueError for blocks that have no attention."""
    if not network.backbone.has_attention_weights:
        raise ValueError("blocks of this kind do not attend: there are no attention weights to look at")


def _whole(rows: Rows) -> Rows:
    """The same, each row summing to 1."""
    return rows / rows.sum(-1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
