"""The part of an image that is hidden: a shape with a name, or what a user has painted."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from isopix.generate.mask import MaskLike

PAINTED = "What I paint"
SHAPES = {
    PAINTED: "",
    "Lower half": "half",
    "Right half": "rectangle:0.0,0.5,1.0,0.5",
    "Middle": "rectangle",
    "Random 75 %": "random:0.75",
}


def hidden_part(shape: str, layers: Sequence[NDArray[np.uint8]], size: tuple[int, int]) -> MaskLike:
    """Return the mask of a shape; for what is painted, bool [H W]: a pixel is hidden if any of it is painted.

    `layers` are RGBA pictures of the image at any scale. Raises ValueError if nothing is painted.
    """
    if shape not in SHAPES:
        raise ValueError(f"there is no shape '{shape}'; choose one of: {', '.join(SHAPES)}")
    if shape != PAINTED:
        return SHAPES[shape]
    painted = torch.zeros(size, dtype=torch.bool)
    for layer in layers:
        painted |= _painted(layer, size)
    if not painted.any():
        raise ValueError("nothing is painted yet: paint over a part of the image, or choose a shape to hide")
    return painted


def _painted(layer: UInt8[np.ndarray, "rows cols 4"], size: tuple[int, int]) -> Tensor:
    alpha = torch.from_numpy(np.ascontiguousarray(layer[..., 3])).float()
    return F.adaptive_max_pool2d(alpha[None, None], size)[0, 0] > 0
