"""Pooling: the tokens of an image to one vector."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Tokens

Pool = Literal["mean", "last", "max", "first"]
Pooled = Float[Tensor, "B D"]


def mean(tokens: Tokens) -> Pooled:
    """The mean over positions (iGPT section 2.4) and the class token, if there is one, in float32."""
    return tokens.float().mean(1)


def last(tokens: Tokens) -> Pooled:
    """The last position in raster order, in float32."""
    return tokens[:, -1].float()


def maximum(tokens: Tokens) -> Pooled:
    """Each channel's largest value over positions, in float32."""
    return tokens.float().amax(1)


def first(tokens: Tokens) -> Pooled:
    """The first token, which is the class token where there is one, in float32: what attention has pooled
    (ViT, equation 4; PatchFormer section 2.1).
    """
    return tokens[:, 0].float()


POOLS: dict[Pool, Callable[[Tokens], Pooled]] = {"mean": mean, "last": last, "max": maximum, "first": first}
