"""The variables of OpenAI's Image GPT, by their names and in their shapes, drawn at random."""

import numpy as np
from numpy.typing import NDArray

Variables = dict[str, NDArray[np.float32]]


def draw(
    *,
    depth: int = 2,
    width: int = 12,
    heads: int = 3,
    colors: int = 7,
    positions: int = 16,
    start: bool = True,
    scope: str = "model/",
) -> Variables:
    """A whole model; autoregressive where it has a start vector."""
    size = width // heads
    shapes: dict[str, tuple[int, ...]] = {"wpe": (positions, width), "wte": (colors, width)}
    shapes |= {"wtet": (colors, width), "ln_f/g": (width,)} | ({"sos": (width,)} if start else {})
    for layer in range(depth):
        here = f"h{layer}"
        shapes |= {f"{here}/ln_1/g": (width,), f"{here}/ln_2/g": (width,)}
        shapes |= {f"{here}/attn/{part}_proj": (heads, size, width) for part in "qkvc"}
        shapes |= {f"{here}/mlp/c_fc/w": (width, 4 * width), f"{here}/mlp/c_proj/w": (4 * width, width)}
    random = np.random.default_rng(0)
    return {
        scope + name: random.normal(size=shape, scale=0.3).astype(np.float32)
        for name, shape in shapes.items()
    }
