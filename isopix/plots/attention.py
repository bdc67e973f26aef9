"""Attention maps, attention rollout and attention distance, relative to uniform attention."""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, FuncNorm, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from isopix.plots import style
from isopix.plots.curves import CurveLabel, label_curves

Numbers = Mapping[str, Any]
Weights = Float[np.ndarray, "..."]
PositionLabel = Sequence[int] | str  # row and column, or a name for the class token

MAX_LAYERS, MAX_HEADS = 12, 16  # of a figure; evenly spaced ones are shown of more
MAX_SIDE, GAP, MARGIN, BAR_SPACE = 1.3, 0.05, 0.04, 0.6  # inches
TITLE_HEIGHT, EXTRA_LINE = 0.26, 0.13  # inches, of a title, and of its second line
NAME_WIDTH, BELOW = 0.26, 0.14  # inches, of the name of a head, and of the number below a map
TICK_HEIGHT = 0.15  # inches, of a number of the color bar
QUANTILE = 0.99  # of all values of a figure, at which its color scale ends, rounded up to a power of two
MAX_RATIO, MAX_ROLLOUT_RATIO = 256, 16  # where color scales end at the latest
MIN_BRIGHTNESS = 0.15  # of an image where rollout is lowest
SPREAD = 0.28  # layers, over which the heads of a layer, or its attentions, are spread


@style.figure_style()
def plot_attention_maps(numbers: Numbers) -> Figure:
    """Plot the image and the attention maps of each query position, a row per head and a column per layer.

    Colors show attention / uniform attention as log(1 + x), gray where none is allowed; below each map is its
    entropy as a fraction of that of uniform attention.
    """
    queries = numbers["queries"]
    ratios = [_ratio(np.array(query["heads"]), np.array(query["uniform"])[:, None]) for query in queries]
    layers = _evenly_spaced(ratios[0].shape[0], MAX_LAYERS)
    heads = _evenly_spaced(ratios[0].shape[1], MAX_HEADS)
    titles = ["image", *("layer " + numbers["layer_names"][layer].replace(" ", "\n") for layer in layers)]
    figure, panels = _panels(len(queries) * len(heads), titles, numbers, heads=True)
    image, end = _decode_png(numbers["image"]), _scale_end(ratios, MAX_RATIO)
    norm = FuncNorm((np.log1p, np.expm1), 0, end)
    for number, (query, values) in enumerate(zip(queries, ratios, strict=True)):
        rows, entropies = panels[number * len(heads) :], _relative_entropies(query)
        _show_image(rows[0, 0], image, query["position"], numbers["patch_size"])
        for (row, head), (column, layer) in product(enumerate(heads), enumerate(layers, start=1)):
            _show_map(rows[row, column], values[layer, head], query["position"], style.SEQUENTIAL, norm)
            rows[row, column].set_xlabel(f"{entropies[layer, head]:.2f}", fontsize=6.5, labelpad=1.5)
            if column == 1:
                rows[row, column].set_ylabel(f"head {head + 1}", fontsize=8)
    _color_bar(figure, style.SEQUENTIAL, norm, [0.0, *(2.0**n for n in range(int(np.log2(end)) + 1))])
    style.add_key(figure, "below each map: its entropy / that of uniform attention")
    return figure


@style.figure_style()
def plot_attention_rollout(numbers: Numbers) -> Figure:
    """Plot for each query position the image, its rollout / that of uniform attention, and both combined."""
    queries = numbers["queries"]
    ratios = [_ratio(np.array(query["rollout"]), np.array(query["uniform"])) for query in queries]
    figure, panels = _panels(len(queries), ("image", "rollout", "image × rollout"), numbers)
    image, patch_size = _decode_png(numbers["image"]), numbers["patch_size"]
    away = [np.ma.maximum(values, 1 / np.ma.maximum(values, 1e-12)) for values in ratios]
    end = _scale_end(away, MAX_ROLLOUT_RATIO)
    colors, norm = style.DIVERGING.with_extremes(bad=style.GRID_COLOR), LogNorm(1 / end, end)
    for row, query, values in zip(panels, queries, ratios, strict=True):
        weights = np.asarray(norm(np.clip(values.filled(1 / end), 1 / end, end)))
        brightness = MIN_BRIGHTNESS + (1 - MIN_BRIGHTNESS) * np.kron(weights, np.ones([patch_size] * 2))
        _show_image(row[0], image, query["position"], patch_size)
        _show_map(row[1], values, query["position"], colors, norm)
        _show_image(row[2], image * brightness[..., None] / 255, query["position"], patch_size)
    power = int(np.log2(end))
    _color_bar(figure, colors, norm, [2.0**n for n in range(-power, power + 1)])
    return figure


@style.figure_style()
def plot_attention_distance(numbers: Numbers) -> Figure:
    """Plot mean attention distance (Vision Transformer, figure 7, right) and entropy of every head, with
    standard deviations over images, the mean of each layer, and uniform attention.
    """
    figure = style.new_figure(3.2)
    left, right = figure.subplots(1, 2)
    uniform = numbers["uniform_distances"]
    uniform = {"": uniform["causal"]} if numbers["causal"] else uniform
    distances = _by_attention(numbers["layers"], lambda head, layer: (head["mean"], head["std"]))
    _plot_heads(left, distances, uniform, digits=1)
    left.set(title="Mean attention distance", ylabel="Pixels")
    entropies = _by_attention(
        numbers["layers"],  # the entropy of a single position is 0
        lambda head, layer: (head["relative_entropy"], head["entropy_std"] / (layer["uniform_entropy"] or 1)),
    )
    _plot_heads(right, entropies, {"": 1.0}, digits=2)
    right.set(title="Entropy", ylabel="Relative to uniform attention")
    key = "marker: one head; bar: ± one standard deviation over images; line: mean of the heads"
    style.add_key(figure, key)
    return figure


def _by_attention(layers: Sequence[Numbers], read: Any) -> dict[str, dict[int, Weights]]:
    """Return means and deviations [2 heads] of each layer by attention: empty, or `rows` and `columns`."""
    found: dict[str, dict[int, Weights]] = {}
    for layer in layers:
        number, _, name = str(layer["layer"]).partition(" ")
        heads = np.array([read(head, layer) for head in layer["heads"]], dtype=float)
        found.setdefault(name, {})[int(number)] = heads.T
    return found


def _plot_heads(
    axes: Axes, attentions: Mapping[str, Mapping[int, Weights]], uniform: Mapping[str, float], digits: int
) -> None:
    labels, ends = list[CurveLabel](), list(uniform.values())
    for index, (name, layers) in enumerate(attentions.items()):
        color = style.COLORS[index % len(style.COLORS)]
        shift = SPREAD * (index - (len(attentions) - 1) / 2)
        for layer, (means, stds) in layers.items():
            width = SPREAD / len(attentions) * (len(means) > 1)
            x = layer + shift + width * np.linspace(-0.5, 0.5, len(means))
            look: Any = {"color": color, "ecolor": f"{color}55", "elinewidth": 1.6}
            axes.errorbar(x, means, stds, fmt="os"[index % 2], **look)
            ends += [*(means - stds), *(means + stds)]
        line_color = color if name else style.TEXT_COLOR
        line = [float(means.mean()) for means, _ in layers.values()]
        axes.plot([layer + shift for layer in layers], line, color=line_color, linewidth=1, zorder=1.5)
        labels.append(CurveLabel(line[-1], f"{name or 'mean'} {line[-1]:.{digits}f}", line_color))
    same = len(set(uniform.values())) == 1  # for rows and columns of a square
    for name, value in list(uniform.items())[: 1 if same else None]:
        text = "uniform" if same or name == "all positions" else f"uniform, {name}"
        axes.axhline(value, color=style.MUTED_COLOR, linewidth=1, linestyle=style.DASHED)
        labels.append(CurveLabel(value, f"{text} {value:.{digits}f}", style.MUTED_COLOR))
    margin = 0.08 * (max(ends) - min(ends) or 1)
    axes.set_ylim(max(0, min(ends) - margin) if min(ends) >= 0 else min(ends) - margin, max(ends) + margin)
    axes.set(xlim=(0.5, max(map(max, attentions.values())) + 0.5), xlabel="Layer")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    label_curves(axes, labels)


def _ratio(weights: Weights, uniform: Weights) -> Any:
    return np.ma.masked_array(weights, np.broadcast_to(uniform == 0, weights.shape)) / uniform


def _relative_entropies(query: Numbers) -> Weights:
    uniform = np.log(np.count_nonzero(np.array(query["uniform"]), axis=(1, 2)))[:, None]
    entropies = np.array(query["entropies"], dtype=float)
    return np.divide(entropies, uniform, out=np.ones_like(entropies), where=uniform > 0)


def _scale_end(values: Sequence[Any], limit: int) -> float:
    """Return the power of two, from 2 to `limit`, below which almost all values of a figure lie."""
    high = max(float(np.quantile(each.compressed(), QUANTILE)) for each in values)
    return float(min(limit, 2 ** max(1, math.ceil(math.log2(max(high, 1.0))))))


def _evenly_spaced(count: int, limit: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, limit)).round().astype(int).tolist()))


def _panels(rows: int, titles: Sequence[str], numbers: Numbers, *, heads: bool = False) -> tuple[Figure, Any]:
    map_rows, map_cols = numbers["grid"]
    top = TITLE_HEIGHT + EXTRA_LINE * any("\n" in title for title in titles)
    gap, below = (NAME_WIDTH, BELOW) if heads else (0.0, 0.0)
    side = min(MAX_SIDE, (style.PAGE_WIDTH - MARGIN - BAR_SPACE - gap) / len(titles) - GAP)
    height = side * map_rows / map_cols
    total_width = MARGIN + len(titles) * (side + GAP) + gap + BAR_SPACE
    total_height = top + rows * (height + GAP + below) + 2 * below
    figure = style.new_figure(total_height, total_width)
    figure.set_layout_engine("none")
    panels = np.empty((rows, len(titles)), dtype=object)
    for row, col in np.ndindex(panels.shape):
        left = MARGIN + col * (side + GAP) + gap * (col > 0)
        bottom = total_height - top - row * (height + GAP + below) - height
        place = (left / total_width, bottom / total_height, side / total_width, height / total_height)
        panels[row, col] = axes = figure.add_axes(place, xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        if row == 0:
            axes.set_title(titles[col], fontsize=8, fontweight="normal")
    return figure, panels


def _color_bar(figure: Figure, colors: Colormap, norm: Normalize, ticks: Sequence[float]) -> None:
    width, height = figure.get_size_inches()
    top = figure.axes[0].get_position().y1
    length = min(2.4, height * top - 0.07)
    left = 1 - (BAR_SPACE - GAP) / width
    axes = figure.add_axes((left, top - length / height, 0.1 / width, length / height))
    every = math.ceil((len(ticks) - 1) * TICK_HEIGHT / length)
    shown = [tick for index, tick in enumerate(ticks) if (index - ticks.index(1.0)) % every == 0]
    as_fraction = FuncFormatter(lambda ratio, _: str(Fraction(ratio)))  # 1/4, 1, 4
    bar = figure.colorbar(ScalarMappable(norm, colors), cax=axes, ticks=shown, format=as_fraction)
    bar.minorticks_off()
    bar.outline.set_visible(False)
    axes.axhline(1, color=style.TEXT_COLOR, linewidth=0.8)
    axes.tick_params(labelsize=7, length=0)
    axes.set_title("× uniform", fontsize=7.5, fontweight="normal")


def _show_map(axes: Axes, values: Any, position: PositionLabel, colors: Colormap, norm: Normalize) -> None:
    _show_image(axes, values, position, 1, cmap=colors, norm=norm)
    axes.spines[:].set(visible=True, color=style.GRID_COLOR, linewidth=0.8)


def _show_image(axes: Axes, image: Any, position: PositionLabel, patch_size: int, **colors: Any) -> None:
    axes.imshow(image, interpolation="nearest", **colors)
    if isinstance(position, str):
        axes.spines[:].set(visible=True, color=style.COLORS[1], linewidth=1.2)
    else:
        row, col = ((index + 0.5) * patch_size - 0.5 for index in position)
        look: Any = {"markersize": 4.5, "markerfacecolor": "none", "markeredgewidth": 1.2, "clip_on": False}
        axes.plot(col, row, "s", color=style.COLORS[1], **look)


def _decode_png(text: str) -> UInt8[np.ndarray, "H W 3"]:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB"))
