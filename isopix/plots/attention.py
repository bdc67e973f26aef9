"""Attention distance by layer, attention maps and attention rollout.

The numbers are those of the attention analyses, as written to JSON.
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

from isopix.plots import style
from isopix.plots.curves import HEIGHT, WIDTH, CurveLabel, label_curves

Numbers = Mapping[str, Any]
AttentionMap = Float[np.ndarray, "rows cols"]
PositionLabel = Sequence[int] | str  # row and column, or a name for the class token

MAX_LAYERS, MAX_HEADS = 12, 16  # of a figure; evenly spaced ones are shown of more
MAX_MAP_SIDE, CAPTION_HEIGHT, GAP = 1.3, 0.26, 0.05  # inches
EXTRA_LINE = 0.13  # inches, of each further line of a caption
MAX_HORIZONTAL_TICKS = 8  # more labels of rows and columns are rotated
ROLLOUT_QUANTILE = 0.99  # clips the color scale: a position mostly attends to itself
MIN_BRIGHTNESS = 0.15  # of an image where rollout is 0


@style.figure_style()
def plot_attention_distance(numbers: Numbers) -> Figure:
    """Plot the mean attention distance of every head with its standard deviation over images (Vision
    Transformer, figure 7, right).

    Lines show the mean of each layer (for axial attention of rows and of columns) and uniform attention.
    """
    figure = style.new_figure(HEIGHT, WIDTH)
    axes = figure.add_subplot()
    color, layers = style.COLORS[0], numbers["layers"]
    for number, layer in enumerate(layers, start=1):
        means, stds = ([head[key] for head in layer["heads"]] for key in ("mean", "std"))
        x = number + (np.linspace(-0.14, 0.14, len(means)) if len(means) > 1 else np.zeros(1))
        axes.errorbar(x, means, stds, fmt="o", color=color, ecolor=f"{color}55", elinewidth=1.6)
    labels = [*_uniform_lines(axes, numbers), *_layer_means(axes, layers)]
    axes.set(xlabel="Layer", ylabel="Mean attention distance (pixels)")
    _layer_ticks(axes, [layer["layer"] for layer in layers])
    axes.set_xlim(0.5, len(layers) + 0.5)
    axes.set_ylim(0, 1.06 * max(axes.dataLim.y1, *(label.y for label in labels)))
    label_curves(axes, labels)
    return figure


@style.figure_style()
def plot_attention_maps(numbers: Numbers) -> Figure:
    """Plot the image and the attention maps of each query position, a row per head and a column per layer.

    Colors show the square root of attention / map maximum; gray positions are masked by causal attention.
    """
    maps = [np.array(query["heads"], dtype=float) for query in numbers["queries"]]  # by layer and head
    layers = _evenly_spaced(maps[0].shape[0], MAX_LAYERS)
    heads = _evenly_spaced(maps[0].shape[1], MAX_HEADS)
    titles = ["layer " + numbers["layer_names"][layer].replace(" ", "\n") for layer in layers]
    top = CAPTION_HEIGHT + EXTRA_LINE * titles[0].count("\n")
    figure, panel = _panels(len(maps) * len(heads), len(layers) + 1, numbers, captions=(CAPTION_HEIGHT, top))
    image = _decode_png(numbers["image"])
    for index, (query, values) in enumerate(zip(numbers["queries"], maps, strict=True)):
        position, first = query["position"], index * len(heads)
        _show_image(panel(first, 0), image, position, numbers["patch_size"])
        for row, column in product(range(len(heads)), range(len(layers))):
            axes = panel(first + row, column + 1)
            values_here = values[layers[column], heads[row]]
            _show_map(axes, values_here, position, causal=numbers["causal"], quantile=1.0)
            if first + row == 0:
                axes.set_title(titles[column], fontsize=8, fontweight="normal")
            if column == 0:
                axes.set_ylabel(f"head {heads[row] + 1}", fontsize=8)
    return figure


@style.figure_style()
def plot_attention_rollout(numbers: Numbers) -> Figure:
    """Plot for each query position the image, its attention rollout, and the image weighted by it; the color
    scale is clipped at the 99 % quantile.
    """
    queries = numbers["queries"]
    figure, panel = _panels(len(queries), 3, numbers, captions=(0.0, CAPTION_HEIGHT))
    image, patch_size = _decode_png(numbers["image"]), numbers["patch_size"]
    for row, query in enumerate(queries):
        rollout, position = np.array(query["rollout"], dtype=float), query["position"]
        panels = [panel(row, column) for column in range(3)]
        _show_image(panels[0], image, position, patch_size)
        top = _show_map(panels[1], rollout, position, causal=numbers["causal"], quantile=ROLLOUT_QUANTILE)
        weights = np.sqrt(np.minimum(rollout / top, 1)).repeat(patch_size, 0).repeat(patch_size, 1)
        brightness = MIN_BRIGHTNESS + (1 - MIN_BRIGHTNESS) * weights[..., None]
        _show_image(panels[2], image * brightness / 255, position, patch_size)
        if row == 0:
            for axes, title in zip(panels, ("image", "rollout", "image × rollout"), strict=True):
                axes.set_title(title, fontsize=8, fontweight="normal")
    return figure


def _layer_means(axes: Axes, layers: Sequence[Numbers]) -> list[CurveLabel]:
    """Plot a line through the layer means; attentions of different names have a line each."""
    lines: dict[str, dict[int, float]] = {}
    for number, layer in enumerate(layers, start=1):
        _, _, name = layer["layer"].partition(" ")
        lines.setdefault(name, {})[number] = float(np.mean([head["mean"] for head in layer["heads"]]))
    labels = []
    for name, means in lines.items():
        axes.plot(list(means), list(means.values()), color=style.TEXT_COLOR, linewidth=1, zorder=0)
        *_, last = means.values()
        text = f"mean, {name} {last:.1f}" if name else f"mean {last:.1f}"
        labels.append(CurveLabel(last, text, style.TEXT_COLOR))
    return labels


def _uniform_lines(axes: Axes, numbers: Numbers) -> list[CurveLabel]:
    """Plot the distance of uniform attention, by the positions that it may attend to."""
    labels = []
    for positions, distance in numbers["uniform_distances"].items():
        axes.axhline(distance, color=style.MUTED_COLOR, linewidth=1, linestyle=style.DASHED)
        name = "uniform" if positions == "all positions" else f"uniform, {positions}"
        labels.append(CurveLabel(distance, f"{name} {distance:.1f}", style.MUTED_COLOR))
    return labels


def _layer_ticks(axes: Axes, names: Sequence[str]) -> None:
    """Label layers by number, and the attentions of axial blocks by name too."""
    if names[0].isdecimal():
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif len(names) > MAX_HORIZONTAL_TICKS:
        axes.set_xticks(range(1, len(names) + 1), names, rotation=90)
    else:
        axes.set_xticks(range(1, len(names) + 1), [name.replace(" ", "\n") for name in names])


def _evenly_spaced(count: int, limit: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, limit)).round().astype(int).tolist()))


def _panels(
    rows: int, cols: int, numbers: Numbers, *, captions: tuple[float, float]
) -> tuple[Figure, Callable[[int, int], Axes]]:
    """Return a figure for a dense grid of panels, and a function that adds the panel of a row and a column.

    `captions` is the space in inches to the right of the first column and above the first row.
    """
    map_rows, map_cols = numbers["grid"]
    left_space, top_space = captions
    panel_width = min(MAX_MAP_SIDE, (style.PAGE_WIDTH - left_space) / cols - GAP)
    panel_height = panel_width * map_rows / map_cols
    width, height = left_space + cols * (panel_width + GAP), top_space + rows * (panel_height + GAP)
    figure = style.new_figure(height, width)
    figure.set_layout_engine("none")

    def panel(row: int, col: int) -> Axes:
        left = col * (panel_width + GAP) + (left_space if col else 0)
        bottom = height - top_space - (row + 1) * (panel_height + GAP) + GAP
        axes = figure.add_axes((left / width, bottom / height, panel_width / width, panel_height / height))
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        return axes

    return figure, panel


def _show_map(
    axes: Axes, values: AttentionMap, position: PositionLabel, *, causal: bool, quantile: float
) -> float:
    """Show a map, and return the value at which its color scale ends."""
    masked = np.zeros(values.shape, dtype=bool)
    if causal and not isinstance(position, str):
        masked.flat[position[0] * values.shape[1] + position[1] + 1 :] = True
    top = max(float(np.quantile(values[~masked], quantile)), 1e-12)
    visible = np.ma.masked_array(values, masked)
    axes.imshow(visible, cmap=style.SEQUENTIAL, norm=PowerNorm(0.5, 0, top), interpolation="nearest")
    axes.spines[:].set(visible=True, color=style.GRID_COLOR)
    _mark_position(axes, position)
    return top


def _show_image(axes: Axes, image: Any, position: PositionLabel, patch_size: int) -> None:
    axes.imshow(image, interpolation="nearest")
    if isinstance(position, str):  # has no position: the whole image is framed
        axes.spines[:].set(visible=True, color=style.COLORS[1], linewidth=1.2)
    _mark_position(axes, position, patch_size)


def _mark_position(axes: Axes, position: PositionLabel, patch_size: int = 1) -> None:
    if isinstance(position, str):
        return
    row, col = ((index + 0.5) * patch_size - 0.5 for index in position)
    axes.plot(
        *(col, row, "s"),
        markersize=4.5,
        markerfacecolor="none",
        color=style.COLORS[1],
        markeredgewidth=1.2,
        clip_on=False,
    )


def _decode_png(text: str) -> UInt8[np.ndarray, "H W 3"]:
    """Return the pixels of a base64-encoded PNG. Raises ValueError or OSError for anything else."""
    with Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=("PNG",)) as image:
        return np.asarray(image.convert("RGB"))
