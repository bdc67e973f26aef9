"""What one run takes for granted about places, layer by layer, from its kept numbers."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isopix.plots import style


@style.paper()
def by_layer(numbers: Mapping[str, Any]) -> Figure:
    """Errors under translation and under permutation, 1 being no better than chance; and how far a change of
    one position reaches, beside a change that shows everywhere alike.
    """
    drawn = style.figure(2.5, style.WIDTH)
    plots = drawn.subplots(1, 3)
    layers = numbers["layers"]
    number = [layer["layer"] for layer in layers]
    for axes, key, title, colour in zip(
        plots,
        ("translation", "order", "reach"),
        ("error when shifted", "error when permuted", "reach, positions"),
        style.LINES,
        strict=False,
    ):
        axes.plot(number, [layer[key] for layer in layers], "o-", color=colour)
        axes.set_title(title)
        axes.set_xlabel("layer (0 is the embedding)")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        level = numbers["even_reach"] if key == "reach" else 1.0
        axes.axhline(level, color=style.QUIET, linewidth=1, linestyle=(0, (4, 3)))
        axes.set_ylim(-0.03 * level, 1.08 * max(level, axes.dataLim.y1))
    return drawn
