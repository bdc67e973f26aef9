"""Attention drawn: how far heads look, by layer, and where they look from some positions of one image.

The numbers are those that `isopix analyse` keeps (`runs/analyses.py`), read from their file or not.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from isopix.plots import style
from isopix.plots.curves import HEIGHT, WIDTH, Label, annotate

Numbers = Mapping[str, Any]

MOST_LAYERS, MOST_HEADS = 12, 16  # of a sheet: of more, evenly spaced ones are shown
MOST_CELL = 1.25  # inches of one map's side
DIM = 0.12  # of its own brightness an image keeps where nothing is looked at
MARK: Any = {"marker": "s", "markerfacecolor": "none", "color": style.LINES[1], "markeredgewidth": 1.2}


@style.paper()
def distance_by_layer(numbers: Numbers) -> Figure:
    """Mean distance of every head, a dot, with its deviation over images; the mean of each layer, a line; and
    what attention that looks everywhere alike would have (Vision Transformer, figure 7, right).

    Of a causal network the second scale is the share of that even distance over what may be seen.
    """
    drawn = style.figure(HEIGHT, WIDTH)
    axes = drawn.add_subplot()
    colour = style.LINES[0]
    pixels = [[head["pixels"] for head in layer["heads"]] for layer in numbers["layers"]]
    for number, layer in enumerate(numbers["layers"], start=1):
        places = number + _beside(len(layer["heads"]))
        spans = [head["deviation"] for head in layer["heads"]]
        axes.errorbar(
            places, pixels[number - 1], spans, fmt="o", color=colour, elinewidth=1.6, ecolor=f"{colour}55"
        )
    means = [float(np.mean(heads)) for heads in pixels]
    axes.plot(range(1, len(means) + 1), means, color=style.INK, linewidth=1, zorder=0)
    labels = [Label(means[-1], "mean of heads", style.INK), *_even(axes, numbers)]
    axes.set(xlabel="layer", ylabel="attention distance, pixels")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(0.5, len(means) + 0.5)
    axes.set_ylim(0, 1.08 * max(axes.dataLim.y1, *(label.height for label in labels)))
    annotate(axes, labels)
    return drawn


@style.paper()
def maps(numbers: Numbers) -> Figure:
    """A sheet of maps for each marked position: a row a head, a column a layer, beside the image.

    A shade is the root of the share of the map's largest weight; grey is what a causal network may not see.
    """
    shown = [
        np.array(query["heads"], dtype=float) for query in numbers["queries"]
    ]  # [layers heads rows cols]
    layers, heads = _some(shown[0].shape[0], MOST_LAYERS), _some(shown[0].shape[1], MOST_HEADS)
    drawn, table = _sheet(len(shown) * len(heads), len(layers) + 1, _aspect(numbers), header=0.3)
    picture = _picture(numbers["image"])
    for place, (query, values) in enumerate(zip(numbers["queries"], shown, strict=True)):
        first = place * len(heads)
        _image(table[first][0], picture, query["position"], numbers["cell"])
        for row, column in product(range(len(heads)), range(len(layers))):
            axes, position = table[first + row][column + 1], query["position"]
            _shade(axes, values[layers[column], heads[row]], position, causal=numbers["causal"])
            if first + row == 0:
                axes.set_title(f"layer {layers[column] + 1}", fontsize=8, fontweight="normal")
            if column == 0:
                axes.set_ylabel(f"head {heads[row] + 1}", fontsize=8)
    return drawn


@style.paper()
def rollout(numbers: Numbers) -> Figure:
    """For each marked position the image, what reaches the position through all layers, and the image lit by
    it.
    """
    queries = numbers["queries"]
    across = 1 if len(queries) == 1 else 2  # positions side by side
    lines = -(-len(queries) // across)
    drawn, table = _sheet(lines, 3 * across, _aspect(numbers), header=0.3)
    picture = _picture(numbers["image"])
    for place, query in enumerate(queries):
        cells = table[place // across][3 * (place % across) :][:3]
        flow = np.array(query["rollout"], dtype=float)
        _image(cells[0], picture, query["position"], numbers["cell"])
        _shade(cells[1], flow, query["position"], causal=numbers["causal"])
        lit = _enlarged(np.sqrt(flow / flow.max()), picture.shape[:2])[..., None]
        _image(cells[2], picture * (DIM + (1 - DIM) * lit) / 255, query["position"], numbers["cell"])
        if place < across:
            for axes, title in zip(cells, ("image", "rollout", "image lit by it"), strict=True):
                axes.set_title(title, fontsize=8, fontweight="normal")
    return drawn


def _even(axes: Axes, numbers: Numbers) -> list[Label]:
    """Lines of even attention: over all positions, and of a causal network over what may be seen."""
    named = {"even attention": numbers["even"]}
    if numbers["causal"]:
        allowed = numbers["allowed"]
        named = {"even, all positions": numbers["even"], "even, as masked": allowed}
        share = axes.secondary_yaxis("right", functions=(lambda x: x / allowed, lambda x: x * allowed))
        share.set_ylabel("of even attention, as masked", labelpad=6)
        share.spines["right"].set_visible(True)
    for height in named.values():
        axes.axhline(height, color=style.QUIET, linewidth=1, linestyle=(0, (4, 3)))
    return [Label(height, name, style.QUIET) for name, height in named.items()]


def _beside(count: int) -> Float[np.ndarray, " heads"]:
    """Small steps to the side, so that the dots of one layer do not hide one another."""
    return np.linspace(-0.14, 0.14, count) if count > 1 else np.zeros(1)


def _some(count: int, most: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _aspect(numbers: Numbers) -> float:
    rows, cols = numbers["grid"]
    return rows / cols


def _sheet(rows: int, cols: int, aspect: float, header: float) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """A figure of so many cells without axes, close together."""
    cell = min(MOST_CELL, (style.WIDTH - 0.3) / cols)
    drawn = style.figure(rows * (cell * aspect + 0.05) + header, cols * (cell + 0.05) + 0.3)
    engine: Any = drawn.get_layout_engine()
    engine.set(w_pad=0.02, h_pad=0.02, wspace=0.01, hspace=0.01)
    table: Any = drawn.subplots(rows, cols, squeeze=False)
    for axes in table.ravel():
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
    return drawn, table


def _shade(
    axes: Axes, values: Float[np.ndarray, "rows cols"], position: Sequence[int], *, causal: bool
) -> None:
    row, col = position
    hidden = np.zeros(values.shape, dtype=bool)
    if causal:
        hidden.flat[row * values.shape[1] + col + 1 :] = True
    seen = np.ma.masked_array(values, hidden)
    norm = PowerNorm(0.5, 0, max(float(seen.max()), 1e-12))
    axes.imshow(seen, cmap=style.SHADES, norm=norm, interpolation="nearest")
    axes.spines[:].set(visible=True, color=style.FAINT)
    axes.plot(col, row, markersize=4.5, **MARK)


def _image(axes: Axes, picture: Any, position: Sequence[int], cell: int) -> None:
    axes.imshow(picture, interpolation="nearest")
    row, col = ((place + 0.5) * cell - 0.5 for place in position)
    axes.plot(col, row, markersize=4.5, **MARK)


def _picture(text: str) -> UInt8[np.ndarray, "H W 3"]:
    """The pixels of a PNG in base 64. Raises ValueError for anything else."""
    with Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=("PNG",)) as image:
        return np.asarray(image.convert("RGB"))


def _enlarged(values: Float[np.ndarray, "rows cols"], shape: tuple[int, int]) -> Float[np.ndarray, "H W"]:
    """Each position as large as its pixels."""
    rows, cols = (side // places for side, places in zip(shape, values.shape, strict=True))
    return values.repeat(rows, 0).repeat(cols, 1)
