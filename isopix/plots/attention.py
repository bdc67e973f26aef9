"""Attention maps and attention rollout, relative to uniform attention.

The numbers are those of the attention analyses, as written to JSON.
"""

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, FuncNorm, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from PIL import Image

from isopix.plots import style
from isopix.plots.figure_data import DECORATION

Numbers = Mapping[str, Any]
Weights = Float[np.ndarray, "..."]
PositionLabel = Sequence[int] | str  # row and column, or a name for the class token

MAX_LAYERS, MAX_HEADS = 12, 16  # of a figure; evenly spaced ones are shown of more
MAX_MAP_SIDE, CAPTION_HEIGHT, GAP = 1.3, 0.26, 0.05  # inches
EXTRA_LINE = 0.13  # inches, of each further line of a caption
ENTROPY_HEIGHT = 0.14  # inches, of the number below a map
KEY_HEIGHT = 0.2  # inches, of the line that says what the number is
MARGIN = 0.04  # inches, to the left of the first column
BAR_WIDTH, BAR_MARGIN, BAR_BOTTOM, MAX_BAR_HEIGHT = 0.1, 0.6, 0.07, 2.4  # inches
TICK_HEIGHT = 0.15  # inches, of a number of the color bar
QUANTILE = 0.99  # of all values of a figure, at which its color scale ends, rounded up to a power of two
MAX_RATIO, MAX_ROLLOUT_RATIO = 256, 16  # where color scales end at the latest
MIN_BRIGHTNESS = 0.15  # of an image where rollout is lowest


@style.figure_style()
def plot_attention_maps(numbers: Numbers) -> Figure:
    """Plot the image and the attention maps of each query position, a row per head and a column per layer.

    Colors show attention / uniform attention on one scale, linear up to 1 and logarithmic above, as
    log(1 + x). Below each map is its entropy as a fraction of that of uniform attention. Positions that may
    not be attended to are gray.
    """
    queries = numbers["queries"]
    ratios = [_ratio(np.array(query["heads"]), np.array(query["uniform"])[:, None]) for query in queries]
    layers = _evenly_spaced(ratios[0].shape[0], MAX_LAYERS)
    heads = _evenly_spaced(ratios[0].shape[1], MAX_HEADS)
    titles = ["layer " + numbers["layer_names"][layer].replace(" ", "\n") for layer in layers]
    top = CAPTION_HEIGHT + EXTRA_LINE * titles[0].count("\n")
    figure, panel = _panels(
        len(queries) * len(heads),
        len(layers) + 1,
        numbers,
        captions=(CAPTION_HEIGHT, top),
        below=ENTROPY_HEIGHT,
        key="below each map: its entropy / that of uniform attention",
    )
    image, end = _decode_png(numbers["image"]), _scale_end(ratios, MAX_RATIO)
    norm = FuncNorm((np.log1p, np.expm1), 0, end)
    for index, (query, values) in enumerate(zip(queries, ratios, strict=True)):
        position, first = query["position"], index * len(heads)
        entropies = _relative_entropies(query)
        source = panel(first, 0)
        _show_image(source, image, position, numbers["patch_size"])
        if index == 0:
            source.set_title("image", fontsize=8, fontweight="normal")
        for row, column in product(range(len(heads)), range(len(layers))):
            axes, layer, head = panel(first + row, column + 1), layers[column], heads[row]
            _show_map(axes, values[layer, head], position, style.SEQUENTIAL, norm)
            axes.set_xlabel(f"{entropies[layer, head]:.2f}", fontsize=6.5, labelpad=1.5)
            if first + row == 0:
                axes.set_title(titles[column], fontsize=8, fontweight="normal")
            if column == 0:
                axes.set_ylabel(f"head {heads[row] + 1}", fontsize=8)
    ticks = [0.0, *(2.0**power for power in range(int(np.log2(end)) + 1))]
    _color_bar(figure, style.SEQUENTIAL, norm, ticks, top)
    return figure


@style.figure_style()
def plot_attention_rollout(numbers: Numbers) -> Figure:
    """Plot for each query position the image, its attention rollout divided by the rollout of uniform
    attention, on one logarithmic scale, and the image weighted by it.
    """
    queries = numbers["queries"]
    ratios = [_ratio(np.array(query["rollout"]), np.array(query["uniform"])) for query in queries]
    figure, panel = _panels(len(queries), 3, numbers, captions=(0.0, CAPTION_HEIGHT))
    image, patch_size = _decode_png(numbers["image"]), numbers["patch_size"]
    end = _scale_end(
        [np.ma.maximum(values, 1 / np.ma.maximum(values, 1e-12)) for values in ratios], MAX_ROLLOUT_RATIO
    )
    colors, norm = style.DIVERGING.with_extremes(bad=style.GRID_COLOR), LogNorm(1 / end, end)
    for row, (query, values) in enumerate(zip(queries, ratios, strict=True)):
        position = query["position"]
        panels = [panel(row, column) for column in range(3)]
        _show_image(panels[0], image, position, patch_size)
        _show_map(panels[1], values, position, colors, norm)
        weights = np.asarray(norm(np.clip(values.filled(1 / end), 1 / end, end)))
        weights = weights.repeat(patch_size, 0).repeat(patch_size, 1)
        brightness = MIN_BRIGHTNESS + (1 - MIN_BRIGHTNESS) * weights[..., None]
        _show_image(panels[2], image * brightness / 255, position, patch_size)
        if row == 0:
            for axes, title in zip(panels, ("image", "rollout", "image × rollout"), strict=True):
                axes.set_title(title, fontsize=8, fontweight="normal")
    powers = range(-int(np.log2(end)), int(np.log2(end)) + 1)
    _color_bar(figure, colors, norm, [2.0**power for power in powers], CAPTION_HEIGHT)
    return figure


def _ratio(weights: Weights, uniform: Weights) -> Any:
    """Return weights / uniform weights, masked where a position may not be attended to."""
    return np.ma.masked_array(weights, np.broadcast_to(uniform == 0, weights.shape)) / uniform


def _relative_entropies(query: Numbers) -> Weights:
    """Return the entropy of each map by layer and head, divided by that of uniform attention."""
    allowed = np.count_nonzero(np.array(query["uniform"]), axis=(1, 2))
    uniform = np.log(allowed)[:, None]
    entropies = np.array(query["entropies"], dtype=float)
    return np.divide(entropies, uniform, out=np.ones_like(entropies), where=uniform > 0)


def _scale_end(values: Sequence[Any], limit: int) -> float:
    """Return the power of two, from 2 to `limit`, below which almost all values of a figure lie."""
    high = max(float(np.quantile(each.compressed(), QUANTILE)) for each in values)
    return float(min(limit, 2 ** max(1, math.ceil(math.log2(max(high, 1.0))))))


def _color_bar(figure: Figure, colors: Colormap, norm: Normalize, ticks: Sequence[float], top: float) -> None:
    """Draw the color bar of multiples of uniform attention at the right, `top` inches from the top, with a
    line at 1.
    """
    width, height = figure.get_size_inches()
    length = min(MAX_BAR_HEIGHT, height - top - BAR_BOTTOM)
    left, bottom = width - BAR_MARGIN + GAP, height - top - length
    axes = figure.add_axes((left / width, bottom / height, BAR_WIDTH / width, length / height))
    every = math.ceil((len(ticks) - 1) * TICK_HEIGHT / length)
    shown = [tick for index, tick in enumerate(ticks) if (index - ticks.index(1.0)) % every == 0]
    bar = figure.colorbar(
        ScalarMappable(norm, colors), cax=axes, ticks=shown, format=FuncFormatter(_fraction)
    )
    bar.minorticks_off()
    bar.outline.set_visible(False)
    axes.axhline(1, color=style.TEXT_COLOR, linewidth=0.8, label=DECORATION)
    axes.tick_params(labelsize=7, length=0)
    axes.set_title("× uniform", fontsize=7.5, fontweight="normal")


def _fraction(ratio: float, _: Any) -> str:
    """Return `1/4`, `1` or `4`."""
    return f"1/{1 / ratio:.0f}" if 0 < ratio < 1 else f"{ratio:.0f}"


def _evenly_spaced(count: int, limit: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, limit)).round().astype(int).tolist()))


def _panels(
    rows: int,
    cols: int,
    numbers: Numbers,
    *,
    captions: tuple[float, float],
    below: float = 0.0,
    key: str = "",
) -> tuple[Figure, Callable[[int, int], Axes]]:
    """Return a figure for a dense grid of panels, and a function that adds the panel of a row and a column.

    `captions` is the space in inches to the right of the first column and above the first row, `below` that
    below each panel, `key` a line below all; a margin at the right is left for a color bar.
    """
    map_rows, map_cols = numbers["grid"]
    left_space, top_space = captions
    panel_width = min(MAX_MAP_SIDE, (style.PAGE_WIDTH - MARGIN - left_space - BAR_MARGIN) / cols - GAP)
    panel_height = panel_width * map_rows / map_cols
    step = panel_height + GAP + below
    width = MARGIN + left_space + cols * (panel_width + GAP) + BAR_MARGIN
    height = top_space + rows * step + KEY_HEIGHT * bool(key)
    figure = style.new_figure(height, width)
    figure.set_layout_engine("none")
    figure.text(MARGIN / width, 0.4 * KEY_HEIGHT / height, key, fontsize=7, color=style.MUTED_COLOR)

    def panel(row: int, col: int) -> Axes:
        left = MARGIN + col * (panel_width + GAP) + (left_space if col else 0)
        bottom = height - top_space - row * step - panel_height
        axes = figure.add_axes((left / width, bottom / height, panel_width / width, panel_height / height))
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        return axes

    return figure, panel


def _show_map(axes: Axes, values: Any, position: PositionLabel, colors: Colormap, norm: Normalize) -> None:
    axes.imshow(values, cmap=colors, norm=norm, interpolation="nearest")
    axes.spines[:].set(visible=True, color=style.GRID_COLOR)
    _mark_position(axes, position)


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
        label="_position",
    )


def _decode_png(text: str) -> UInt8[np.ndarray, "H W 3"]:
    """Return the pixels of a base64-encoded PNG. Raises ValueError or OSError for anything else."""
    with Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=("PNG",)) as image:
        return np.asarray(image.convert("RGB"))
