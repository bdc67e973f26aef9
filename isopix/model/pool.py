"""Pooling: reduce the tokens of an image to one vector."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor

Pool = Literal["mean", "last", "max", "first"]
AllTokens = Float[Tensor, "B _ D"]  # prefix tokens (a class token), then all positions in raster order
Pooled = Float[Tensor, "B D"]


def default_pool(num_prefix_tokens: int) -> Pool:
    """Return the pool of a network: its class token if it has one (ViT, eq. 4), else the mean (iGPT)."""
    return "first" if num_prefix_tokens else "mean"


def mean(tokens: AllTokens, num_prefix_tokens: int) -> Pooled:
    """Mean over positions (iGPT section 2.4), without prefix tokens (ViT, appendix D.3), in float32."""
    return tokens[:, num_prefix_tokens:].float().mean(1)


def last(tokens: AllTokens, num_prefix_tokens: int) -> Pooled:
    """The last position in raster order, in float32."""
    return tokens[:, -1].float()


def maximum(tokens: AllTokens, num_prefix_tokens: int) -> Pooled:
    """Maximum of each channel over positions, without prefix tokens, in float32."""
    return tokens[:, num_prefix_tokens:].float().amax(1)


def first(tokens: AllTokens, num_prefix_tokens: int) -> Pooled:
    """The first token in float32: a class token if there is one (ViT, eq. 4; PatchFormer section 2.1)."""
    return tokens[:, 0].float()


POOLS: dict[Pool, Callable[[AllTokens, int], Pooled]] = {
    "mean": mean,
    "last": last,
    "max": maximum,
    "first": first,
}
