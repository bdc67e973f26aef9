"""Principal components of filters and tables, and similarity of positions and of pixel values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from einops import rearrange
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isopix.plots import style

Numbers = Mapping[str, Any]
SimilarityMatrix = Float[np.ndarray, "K K"]

FILTERS_PER_ROW, ENCODINGS_PER_ROW, MAX_LEVEL_PANELS = 7, 4, 4
SIMILARITY: Any = {"cmap": style.DIVERGING, "vmin": -1, "vmax": 1}  # 1 is dark blue, 0 white, -1 red
CHANNELS = ("Red", "Green", "Blue")
CHANNEL_COLORS = (style.COLORS[1], style.COLORS[2], style.COLORS[0])
MAX_CLASS_KEYS = 20  # in a legend
TEXT_HEIGHT = 1.3  # inches for the title and the label of an encoding
MOSAIC_SIDE = 5.2  # inches, of the longer side
MAP_GAP = 0.07  # between maps of positions, as a fraction of a map's side


@style.figure_style()
def plot_filters(numbers: Numbers) -> Figure:
    """Plot the principal components of patch-embedding filters (Vision Transformer, figure 7, left)."""
    images = np.array(numbers["components"], dtype=float)
    rows = -(-len(images) // FILTERS_PER_ROW)
    figure = style.new_figure(rows * 1.14)
    panels = figure.subplots(rows, FILTERS_PER_ROW, squeeze=False).ravel()
    for axes in panels:
        axes.axis("off")
    for axes, image, ratio in zip(panels, images, numbers["explained_variance_ratio"], strict=False):
        axes.imshow(image, interpolation="nearest")
        axes.text(0.5, -0.06, _percent(ratio), transform=axes.transAxes, fontsize=7.5, ha="center", va="top")
    return figure


@style.figure_style()
def plot_tables(numbers: Numbers) -> Figure:
    """Plot colors of a palette, or levels of codes, on principal components, and their explained variance."""
    tables = numbers["tables"]
    figure = style.new_figure(2.45)
    if "colors" in numbers:
        colors = np.array(numbers["colors"]) / 255
        projections = np.array(tables[0]["projections"], dtype=float)
        ratios = tables[0]["explained_variance_ratio"]
        pairs = min(2, projections.shape[1] // 2)  # a palette of two or three colors has no four components
        panels = figure.subplots(1, pairs + 1, width_ratios=(*[1] * pairs, 0.8))
        for axes, first in zip(panels[:pairs], (0, 2), strict=False):
            _scatter(axes, projections[:, first : first + 2], colors, ratios[first : first + 2], first)
        _explained_variance(panels[-1], [ratios], [style.MUTED_COLOR])
        return figure
    shown = tables[:MAX_LEVEL_PANELS]
    names: Sequence[str] = [f"Code {i + 1} of {len(tables)}" for i in range(len(shown))]
    line_colors: Sequence[str] = style.COLORS
    if len(tables) == len(CHANNELS):
        names, line_colors = CHANNELS, CHANNEL_COLORS
    panels = figure.subplots(1, len(shown) + 1, width_ratios=(*[1.0] * len(shown), 0.9), squeeze=False)[0]
    for axes, table, name in zip(panels, shown, names, strict=False):
        projections = np.array(table["projections"], dtype=float)[:, :3]
        _levels(axes, projections, table["explained_variance_ratio"], name)
    ratios = [table["explained_variance_ratio"] for table in shown]
    _explained_variance(panels[-1], ratios, line_colors[: len(shown)])
    return figure


@style.figure_style()
def plot_projections(numbers: Numbers) -> Figure:
    """Plot images as points, a panel for each projection, colored by class; unlabeled ones are gray."""
    planes, labels = numbers["projections"], numbers["labels"]
    names = sorted({each for each in labels if each is not None})
    palette = colormaps["tab10" if len(names) <= 10 else "turbo"](np.linspace(0, 1, max(1, len(names))))
    colors = dict(zip(names, palette, strict=False))
    shown = [colors.get(each, style.MUTED_COLOR) for each in labels]
    has_key = 0 < len(names) <= MAX_CLASS_KEYS
    figure = style.new_figure(style.PAGE_WIDTH / max(2, len(planes)) + 0.4 * has_key)
    panels = figure.subplots(1, len(planes), squeeze=False)[0]
    for axes, (name, plane) in zip(panels, planes.items(), strict=True):
        points = np.array(plane, dtype=float)
        axes.scatter(points[:, 0], points[:, 1], c=shown, s=9, linewidths=0)
        axes.set(title=name, xticks=[], yticks=[])
    first, second = map(_percent, numbers["explained_variance_ratio"])
    panels[0].set(xlabel=f"Component 1 ({first})", ylabel=f"Component 2 ({second})")
    if has_key:
        keys = [Line2D([], [], color=colors[name], marker="o", linestyle="", label=name) for name in names]
        figure.legend(handles=keys, loc="outside lower center", ncols=6)
    return figure


@style.figure_style()
def plot_position_similarity(numbers: Numbers) -> Figure:
    """Plot the cosine similarity of each position to all others (Vision Transformer, figure 7, center)."""
    maps = np.array(numbers["maps"], dtype=float)
    map_rows, map_cols, rows, cols = maps.shape
    gap = max(1, round(MAP_GAP * max(rows, cols)))
    padded = np.pad(maps, ((0, 0), (0, 0), (0, gap), (0, gap)), constant_values=np.nan)
    mosaic = rearrange(padded, "r c h w -> (r h) (c w)")[:-gap, :-gap]
    height, width = mosaic.shape
    scale = MOSAIC_SIDE / max(height, width)
    figure = style.new_figure(height * scale + 0.5, width * scale + 1.5)
    axes = figure.add_subplot()
    image = axes.imshow(mosaic, **SIMILARITY, interpolation="nearest")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks((np.arange(map_cols) + 0.5) * (cols + gap) - gap / 2 - 0.5, numbers["cols"])
    axes.set_yticks((np.arange(map_rows) + 0.5) * (rows + gap) - gap / 2 - 0.5, numbers["rows"])
    axes.set(xlabel="Column of the position", ylabel="Row of the position")
    bar = figure.colorbar(image, label="Cosine similarity", shrink=0.6, aspect=30, pad=0.02)
    bar.outline.set_visible(False)
    return figure


@style.print_style
def plot_level_similarity(encodings: Mapping[str, tuple[SimilarityMatrix, float, float]]) -> Figure:
    """Plot the similarity of pairs of levels by encoding, with distance preservation ρ and effective rank."""
    cols = min(ENCODINGS_PER_ROW, len(encodings))
    rows = -(-len(encodings) // cols)
    side = (style.PAGE_WIDTH - 0.9) / cols
    figure = style.new_figure(rows * (side + TEXT_HEIGHT))
    panels = figure.subplots(rows, cols, squeeze=False)
    for axes in panels.flat[len(encodings) :]:
        axes.set_axis_off()
    for axes, (name, found) in zip(panels.flat, encodings.items(), strict=False):
        similarity, distance_preservation, effective_rank = found
        last = len(similarity) - 1
        axes.imshow(similarity, **SIMILARITY, interpolation="none")
        axes.set_title(style.wrap_title(name))
        rho, rank = style.decimal(distance_preservation, 2), style.decimal(effective_rank, 0)
        axes.set(xlabel=f"Level\nρ = {rho}\nrank {rank}", xticks=[0, last], yticks=[0, last])
        axes.tick_params(labelleft=axes in panels[:, 0])
        axes.grid(visible=False)
    for axes in panels[:, 0]:
        axes.set_ylabel("Level")
    scale: Any = {"label": "Similarity", "ticks": [-1, 0, 1], "shrink": 0.75, "aspect": 18}
    figure.colorbar(panels[0, 0].images[0], ax=panels, **scale).outline.set_visible(False)
    return figure


def _scatter(axes: Axes, points: Any, colors: Any, ratios: Any, first: int) -> None:
    look: Any = {"s": 13, "edgecolors": style.MUTED_COLOR, "linewidths": 0.25}
    axes.scatter(points[:, 0], points[:, 1], c=colors, **look)
    names = [f"Component {first + i + 1} ({_percent(ratio)})" for i, ratio in enumerate(ratios)]
    axes.set(xlabel=names[0], ylabel=names[1], xticks=[], yticks=[])
    axes.spines[["top", "right"]].set_visible(True)
    axes.margins(0.06)


def _levels(axes: Axes, projections: Any, ratios: Any, name: str) -> None:
    for number, (line, ratio) in enumerate(zip(projections.T, ratios, strict=False), start=1):
        color = style.COLORS[(0, 1, 3)[number - 1]]
        axes.plot(line, color=color, linewidth=0.8, label=f"PC {number} ({_percent(ratio)})")
    axes.set_title(name)
    last = len(projections) - 1
    axes.set(xlabel="Level", xticks=sorted({0, round(last / 2), last}), yticks=[])
    below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.24), "ncols": 1}
    axes.legend(**below, fontsize=6.5, handlelength=0.9, handletextpad=0.4, labelspacing=0.3)


def _explained_variance(axes: Axes, ratios: Sequence[Any], colors: Sequence[str]) -> None:
    for each, color in zip(ratios, colors, strict=True):
        axes.plot(range(1, len(each) + 1), np.cumsum(each), "o-", color=color, linewidth=1.2, markersize=3)
    axes.set(xlabel="Components", ylabel="Explained variance", ylim=(0, 1.03))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    style.percent_ticks(axes.yaxis)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f}%" if fraction >= 0.1 else f"{100 * fraction:.1f}%"
