"""Pooling: the tokens of an image to one vector."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Tokens

Pool = Literal["mean", "last", "max"]
Pooled = Float[Tensor, "B D"]


def mean(tokens: Tokens) -> Pooled:
    """The mean over positions (iGPT section 2.4), in float32."""
    return tokens.float().mean(1)


def last(tokens: Tokens) -> Pooled:
    """The last position in raster order, in float32."""
    return tokens[:, -1].float()


def maximum(tokens: Tokens) -> Pooled:
    """Each channel's largest value over positions, in float32."""
    return tokens.float().amax(1)


POOLS: dict[Pool, Callable[[Tokens], Pooled]] = {"mean": mean, "last": last, "max": maximum}
