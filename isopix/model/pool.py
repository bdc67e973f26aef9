"""Pooling: the tokens of an image to one vector."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor

Pool = Literal["mean", "last", "max", "first"]
Led = Float[Tensor, "B _ D"]  # of all positions in raster order, behind the `leading` that stand for none
Pooled = Float[Tensor, "B D"]


def mean(tokens: Led, leading: int) -> Pooled:
    """The mean over positions (iGPT section 2.4), a class token left out (ViT, appendix D.3), in float32."""
    return tokens[:, leading:].float().mean(1)


def last(tokens: Led, leading: int) -> Pooled:
    """The last position in raster order, in float32."""
    return tokens[:, -1].float()


def maximum(tokens: Led, leading: int) -> Pooled:
    """Each channel's largest value over positions, a class token left out, in float32."""
    return tokens[:, leading:].float().amax(1)


def first(tokens: Led, leading: int) -> Pooled:
    """The first token, which is the class token where there is one, in float32: what attention has pooled
    (ViT, equation 4; PatchFormer section 2.1).
    """
    return tokens[:, 0].float()


POOLS: dict[Pool, Callable[[Led, int], Pooled]] = {
    "mean": mean,
    "last": last,
    "max": maximum,
    "first": first,
}
