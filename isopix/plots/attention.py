"""Attention drawn: how far heads look, by layer, and where they look from some positions of one image.

The numbers are those that `isopix analyze` keeps, read from their file or not.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from isopix.analysis.attention import CLASS
from isopix.plots import style
from isopix.plots.curves import HEIGHT, WIDTH, Label, annotate

Numbers = Mapping[str, Any]
Map = Float[np.ndarray, "rows cols"]
Place = Sequence[int] | str  # row and column, or the class token

MOST_LAYERS, MOST_HEADS = 12, 16  # of a sheet: of more, evenly spaced ones are shown
MOST_CELL, MARGIN, GAP = 1.3, 0.26, 0.05  # inches: a map's side, the room for captions, between maps
SECOND = 0.13  # inches of another line of a caption
MOST_UPRIGHT = 8  # names of rows and columns that have room side by side
BRIGHTEST = 0.99  # quantile of a rollout that is shown as bright as can be: a position reaches itself most
DIM = 0.15  # of its own brightness an image keeps where nothing comes from


@style.paper()
def distance_by_layer(numbers: Numbers) -> Figure:
    """Mean distance of every head, a dot, with its deviation over images; the mean of each layer, a line, or
    one of rows and one of columns; and what attention that looks everywhere alike would have (Vision
    Transformer, figure 7, right).
    """
    drawn = style.figure(HEIGHT, WIDTH)
    axes = drawn.add_subplot()
    colour, layers = style.LINES[0], numbers["layers"]
    for number, layer in enumerate(layers, start=1):
        pixels, spans = ([head[key] for head in layer["heads"]] for key in ("pixels", "deviation"))
        places = number + (np.linspace(-0.14, 0.14, len(pixels)) if len(pixels) > 1 else np.zeros(1))
        axes.errorbar(places, pixels, spans, fmt="o", color=colour, ecolor=f"{colour}55", elinewidth=1.6)
    labels = [*_even(axes, numbers), *_means(axes, layers)]
    axes.set(xlabel="layer", ylabel="attention distance, pixels")
    _number(axes, [layer["layer"] for layer in layers])
    axes.set_xlim(0.5, len(layers) + 0.5)
    axes.set_ylim(0, 1.06 * max(axes.dataLim.y1, *(label.height for label in labels)))
    annotate(axes, labels)
    return drawn


@style.paper()
def maps(numbers: Numbers) -> Figure:
    """A sheet of maps for each marked position: a row a head, a column a layer, beside the image.

    A shade is the root of the share of the map's largest weight; grey is what a causal network may not see.
    """
    shown = [np.array(query["heads"], dtype=float) for query in numbers["queries"]]  # by layer and head
    layers, heads = _some(shown[0].shape[0], MOST_LAYERS), _some(shown[0].shape[1], MOST_HEADS)
    titles = ["layer " + numbers["attentions"][layer].replace(" ", "\n") for layer in layers]
    above = MARGIN + SECOND * titles[0].count("\n")
    drawn, cell = _sheet(len(shown) * len(heads), len(layers) + 1, numbers, captions=(MARGIN, above))
    picture = _picture(numbers["image"])
    for place, (query, values) in enumerate(zip(numbers["queries"], shown, strict=True)):
        position, first = query["position"], place * len(heads)
        _image(cell(first, 0), picture, position, numbers["cell"])
        for row, column in product(range(len(heads)), range(len(layers))):
            axes = cell(first + row, column + 1)
            values_here = values[layers[column], heads[row]]
            _shade(axes, values_here, position, causal=numbers["causal"], brightest=1.0)
            if first + row == 0:
                axes.set_title(titles[column], fontsize=8, fontweight="normal")
            if column == 0:
                axes.set_ylabel(f"head {heads[row] + 1}", fontsize=8)
    return drawn


@style.paper()
def rollout(numbers: Numbers) -> Figure:
    """For each marked position the image, what reaches the position through all layers, and the image lit by
    it; above its 99 % quantile it is all one shade.
    """
    queries = numbers["queries"]
    drawn, cell = _sheet(len(queries), 3, numbers, captions=(0.0, MARGIN))
    picture = _picture(numbers["image"])
    for row, query in enumerate(queries):
        flow, position = np.array(query["rollout"], dtype=float), query["position"]
        cells = [cell(row, column) for column in range(3)]
        _image(cells[0], picture, position, numbers["cell"])
        most = _shade(cells[1], flow, position, causal=numbers["causal"], brightest=BRIGHTEST)
        lit = np.sqrt(np.minimum(flow / most, 1)).repeat(numbers["cell"], 0).repeat(numbers["cell"], 1)
        _image(cells[2], picture * (DIM + (1 - DIM) * lit[..., None]) / 255, position, numbers["cell"])
        if row == 0:
            for axes, title in zip(cells, ("image", "rollout", "image lit by it"), strict=True):
                axes.set_title(title, fontsize=8, fontweight="normal")
    return drawn


def _means(axes: Axes, layers: Sequence[Numbers]) -> list[Label]:
    """A line through the means of all layers, or of those of one name."""
    lines: dict[str, dict[int, float]] = {}
    for number, layer in enumerate(layers, start=1):
        _, _, name = layer["layer"].partition(" ")
        lines.setdefault(name, {})[number] = float(np.mean([head["pixels"] for head in layer["heads"]]))
    labels = []
    for name, means in lines.items():
        axes.plot(list(means), list(means.values()), color=style.INK, linewidth=1, zorder=0)
        *_, last = means.values()
        labels.append(Label(last, f"mean, {name} {last:.1f}" if name else f"mean {last:.1f}", style.INK))
    return labels


def _even(axes: Axes, numbers: Numbers) -> list[Label]:
    """Lines of even attention, by where it may look."""
    levels = numbers["even_distances"]
    for height in levels.values():
        axes.axhline(height, color=style.QUIET, linewidth=1, linestyle=(0, (4, 3)))
    return [Label(height, f"even, {where} {height:.1f}", style.QUIET) for where, height in levels.items()]


def _number(axes: Axes, names: Sequence[str]) -> None:
    """Layers by their numbers, those of rows and of columns by their names too."""
    if names[0].isdecimal():
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif len(names) > MOST_UPRIGHT:
        axes.set_xticks(range(1, len(names) + 1), names, rotation=90)
    else:
        axes.set_xticks(range(1, len(names) + 1), [name.replace(" ", "\n") for name in names])


def _some(count: int, most: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _sheet(
    rows: int, cols: int, numbers: Numbers, *, captions: tuple[float, float]
) -> tuple[Figure, Callable[[int, int], Axes]]:
    """A figure of so many cells close together, and a function that makes the one of a row and a column;
    `captions` is the room right of the first column, and above the first row.
    """
    high, wide = numbers["grid"]
    beside, above = captions
    side = min(MOST_CELL, (style.WIDTH - beside) / cols - GAP)
    tall = side * high / wide
    width, height = beside + cols * (side + GAP), above + rows * (tall + GAP)
    drawn = style.figure(height, width)
    drawn.set_layout_engine("none")

    def cell(row: int, col: int) -> Axes:
        left = col * (side + GAP) + (beside if col else 0)
        bottom = height - above - (row + 1) * (tall + GAP) + GAP
        axes = drawn.add_axes((left / width, bottom / height, side / width, tall / height))
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        return axes

    return drawn, cell


def _shade(axes: Axes, values: Map, position: Place, *, causal: bool, brightest: float) -> float:
    """Draw a map, and return the value from which on it is darkest."""
    hidden = np.zeros(values.shape, dtype=bool)
    if causal and not isinstance(position, str):
        hidden.flat[position[0] * values.shape[1] + position[1] + 1 :] = True
    most = max(float(np.quantile(values[~hidden], brightest)), 1e-12)
    seen = np.ma.masked_array(values, hidden)
    axes.imshow(seen, cmap=style.SHADES, norm=PowerNorm(0.5, 0, most), interpolation="nearest")
    axes.spines[:].set(visible=True, color=style.FAINT)
    _mark(axes, position)
    return most


def _image(axes: Axes, picture: Any, position: Place, cell: int) -> None:
    axes.imshow(picture, interpolation="nearest")
    if position == CLASS:  # it stands for no place: all is framed
        axes.spines[:].set(visible=True, color=style.LINES[1], linewidth=1.2)
    _mark(axes, position, cell)


def _mark(axes: Axes, position: Place, cell: int = 1) -> None:
    """A square at a position, which is so many pixels wide."""
    if isinstance(position, str):
        return
    row, col = ((place + 0.5) * cell - 0.5 for place in position)
    axes.plot(
        *(col, row, "s"),
        markersize=4.5,
        markerfacecolor="none",
        color=style.LINES[1],
        markeredgewidth=1.2,
        clip_on=False,
    )


def _picture(text: str) -> UInt8[np.ndarray, "H W 3"]:
    """The pixels of a PNG in base 64. Raises ValueError or OSError for anything else."""
    with Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=("PNG",)) as image:
        return np.asarray(image.convert("RGB"))
