"""The figure of each analysis, by its name."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from isopix.plots import attention, filters, granted, positions

DRAW: dict[str, Callable[[Mapping[str, Any]], Figure]] = {
    "attention-distance": attention.distance_by_layer,
    "attention-maps": attention.maps,
    "rollout": attention.rollout,
    "positions": positions.maps,
    "embedding": filters.draw,
    "biases": granted.by_layer,
}
